"""
Any program that speaks the Agent Client Protocol: one process, one of its sessions for each of
ours.
"""

from turngate.gateway.agents.acp.agent import make

__all__ = ["make"]
