"""
The vocabulary and the seams: frozen values, ids, errors and ports. Imports nothing but the standard
library.
"""
