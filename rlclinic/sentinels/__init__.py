"""Sentinels for other people's training loops, so that diagnosis knows as much about their runs as about ours.

`rlclinic.sentinels.sb3.SentinelCallback` for Stable-Baselines3, `rlclinic.sentinels.torch_loop.Sentinels` for a loop written by
hand (CleanRL's). Both only look: the weights come out the same, bit for bit, with them and without. Columns have the names of the
metric dictionary, so that any log which holds them can be read back.
"""
