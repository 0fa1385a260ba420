"""
The protocols behind which platforms, agents, clocks and stores are exchanged.

This package is the public home of the types for authors of platforms: `platform` for what a package
exports, `adapter` for what an adapter must and may do. Authors of agents import from
`turngate.gateway.agents.api`.
"""
