"""The checks of scripts against written faults: clean scripts of six styles, and each of them broken in one place at a time."""
