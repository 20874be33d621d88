"""What can be found before anything is trained: in settings, environments and scripts."""
