"""Why a run does not learn, what to change, and looks before anything is trained."""
