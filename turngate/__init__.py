"""
The package that is installed: `gateway`, `adapters` and `config` below one name.

In a checkout these three are links to the folders beside this one. Generic names at the top of
site-packages would collide with an agent's own `config.py`.
"""
