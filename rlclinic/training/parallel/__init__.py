"""Data parallelism: several processes (ranks) train one cohort together (run.data_parallel).

ranks.py        who they are, how they are started, and what they exchange
shared_memory.py  what ranks of one machine exchange goes through memory that all of them see
watch.py        where every rank is, by its own word; which one is lost, and which collective hangs
shares.py       which environments and which rows of a minibatch are a rank's own
part.py         what every rank does: plays its environments, learns from its share of every minibatch, averages gradients
spread_env.py   rank 0's view: all environments of a cohort as one
engine.py       rank 0's engine, and what ranks testify about each other
follower.py     what the other ranks do: whatever rank 0 announces
calibration.py  whether it pays here

Rank 0 trains as one process does: it has the run folders, evaluates, writes and decides. Before it does anything that takes all ranks,
it announces it, and every rank then runs the same method of its `RankPart`. Rollouts are put together on every rank, so that minibatches,
the scale of advantages, normalizers, episodes and sentinels are those of one process by construction, to the bit; only gradients are
summed in another order. What is shared out is the work: stepping environments, and passes through the networks.
"""
