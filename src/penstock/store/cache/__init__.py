"""The node cache: objects of remote stores on a local disk, shared by all processes of the node."""
