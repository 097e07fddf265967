"""Images -> pixels, in the order in which data passes.

file        the bytes of an image file, opened by Pillow within limits
pixels      chat: the image of a record -> RGB
picture     robot: the image of a camera, or its distances
resize      frames of another size
processor   RGB -> the normalised input of a vision model
"""
