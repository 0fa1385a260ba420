"""
The agent kind `acp`: any program that speaks the Agent Client Protocol, in one process, with one of
its sessions for each of ours.
"""

from turngate.gateway.agents.acp.agent import make
from turngate.gateway.agents.spec import Traits

TRAITS = Traits(sends=False)

__all__ = ["TRAITS", "make"]
