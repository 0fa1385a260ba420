"""
The platforms, one file each. An adapter sees the ports, the vocabulary, the errors and its SDK,
nothing else.
"""
