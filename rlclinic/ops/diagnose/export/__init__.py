"""Groups and runs as other programs and people take them: trackers, the Hugging Face hub, one page."""
