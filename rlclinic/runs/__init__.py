"""What a run leaves behind: the only code that knows paths inside `runs/`.

`store` finds and creates runs and groups, `record` reads them, `writer` is what training writes through, `summary` says
how a group did. Nothing here imports torch; numpy and pydantic are imported when a table or a config is asked for.
"""
