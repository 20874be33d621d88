"""Actors: processes that play while the learner learns (A3C, IMPALA, APPO).

actor.py    what one of them does, wherever it runs: a rollout with the weights that it was given
processes.py  actors as processes of this machine
on_ray.py   actors on the nodes of a Ray cluster
pool.py     the learner's side: whose rollout comes next, how old it is, what a resume needs, who has died
"""
