"""A buffer that ends its paths itself and normalizes advantages when it is read."""

import numpy as np


class GAEBuffer:
    def __init__(self, size, obs_dim, gamma=0.99, lam=0.95):
        self.obs_buf = np.zeros((size, obs_dim), dtype=np.float32)
        self.rew_buf = np.zeros(size, dtype=np.float32)
        self.val_buf = np.zeros(size, dtype=np.float32)
        self.adv_buf = np.zeros(size, dtype=np.float32)
        self.ret_buf = np.zeros(size, dtype=np.float32)
        self.gamma, self.lam, self.ptr, self.start = gamma, lam, 0, 0

    def store(self, obs, rew, val):
        self.obs_buf[self.ptr], self.rew_buf[self.ptr], self.val_buf[self.ptr] = obs, rew, val
        self.ptr += 1

    def finish_path(self, last_val=0.0):
        path = slice(self.start, self.ptr)
        rews, vals = self.rew_buf[path], np.append(self.val_buf[path], last_val)
        adv = 0.0
        for t in reversed(range(len(rews))):
            delta = rews[t] + self.gamma * vals[t + 1] - vals[t]
            adv = delta + self.gamma * self.lam * adv
            self.adv_buf[self.start + t] = adv
        self.ret_buf[path] = self.adv_buf[path] + self.val_buf[path]
        self.start = self.ptr

    def get(self):
        self.ptr = self.start = 0
        mean, std = self.adv_buf.mean(), self.adv_buf.std()
        return self.obs_buf, (self.adv_buf - mean) / (std + 1e-8), self.ret_buf
