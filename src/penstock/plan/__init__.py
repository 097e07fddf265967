"""Which item comes where: pure integer arithmetic over numpy. No I/O, no torch, no clock."""
