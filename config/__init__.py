"""
What an operator may write down: the file, the rules it is held to, and the values that come of it.
"""
