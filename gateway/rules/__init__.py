"""
Pure decisions, without clock or I/O: who may talk, which session a message belongs to, what an
agent is shown.
"""
