"""Images -> pixels. Modules in the order in which data passes:

file        the bytes of an image file, opened by Pillow within limits; PNGs are written here, too
pixels      chat: the image of a record -> RGB
camera      robot: the image of a camera, or its distances
resize      frames of another size
processor   RGB -> the normalised input of a vision model
"""
