"""Questions in plain words: finding what is meant, and answering it."""
