"""Questions about the task itself: is it met at all, and what does its reward pay for?"""
