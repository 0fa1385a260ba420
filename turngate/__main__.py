"""Run `python -m turngate`, which does the same as the command `turngate`."""

from turngate.gateway.__main__ import main

if __name__ == "__main__":
    main()
