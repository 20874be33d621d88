"""Looking at what runs left behind: lists, one run, series, policies, films, imports."""
