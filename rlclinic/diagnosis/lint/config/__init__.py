"""Checks of settings that only matter before training: combinations that nobody would choose on purpose."""
