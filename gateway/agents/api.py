"""
The public home of the types for authors of Python agents and of agent kinds.

An agent is an object with `run(turn)`, an async generator of events. Everything it needs is
imported from here; the modules behind these names may change, the names do not. A package adds a
kind with a function `make(spec)` in the entry point group `turngate.agents`.
"""

from turngate.gateway.agents.spec import AgentSpec
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Ask,
    Done,
    File,
    Send,
    Tool,
    ToolStatus,
    Turn,
    Usage,
)
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    AgentUnavailable,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import (
    Attachment,
    InboundMessage,
    SessionSource,
)
from turngate.gateway.domain.ports.agent import (
    Agent,
    Closes,
    TakesAnswers,
    TakesSessionEnd,
    TakesSteering,
)
from turngate.gateway.domain.session import Session, SessionEnded
from turngate.gateway.domain.transcript import (
    Entry,
    Media,
    Reasoning,
    Role,
    Text,
    ToolCall,
)

__all__ = [
    "Agent",
    "AgentError",
    "AgentEvent",
    "AgentRefused",
    "AgentSpec",
    "AgentUnavailable",
    "Ask",
    "Attachment",
    "Closes",
    "Done",
    "Entry",
    "File",
    "InboundMessage",
    "Media",
    "Reasoning",
    "Role",
    "Send",
    "Session",
    "SessionEnded",
    "SessionSource",
    "TakesAnswers",
    "TakesSessionEnd",
    "TakesSteering",
    "Text",
    "Tool",
    "ToolCall",
    "ToolStatus",
    "Turn",
    "TurnId",
    "Usage",
]
