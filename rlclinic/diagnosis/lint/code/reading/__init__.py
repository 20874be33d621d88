"""How a script is read, before anything is checked: files, names, roles, networks, signs, and where values come from."""
