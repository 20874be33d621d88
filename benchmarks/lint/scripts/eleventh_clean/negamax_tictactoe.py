"""Self-play Q-learning for noughts and crosses. A position is always seen by who moves, so what is good for the next one is bad for this one:
the target subtracts the best value of the successor."""
import random
from collections import defaultdict

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
Q = defaultdict(float)
random.seed(0)


def free(board):
    return [i for i in range(9) if board[i] == 0]


def play(board, move):
    """The board after the move, seen by the other side; whether the move won."""
    after = list(board)
    after[move] = 1
    won = any(all(after[i] == 1 for i in line) for line in LINES)
    return tuple(-x for x in after), won


def best(board):
    return max(free(board), key=lambda m: Q[board, m])


def learn(games=30_000, alpha=0.3):
    for game in range(games):
        eps = max(0.1, 1 - game / 15_000)
        board = (0,) * 9
        while True:
            move = random.choice(free(board)) if random.random() < eps else best(board)
            after, won = play(board, move)
            if won:
                target = 1.0
            elif not free(after):
                target = 0.0
            else:
                target = -max(Q[after, m] for m in free(after))
            Q[board, move] += alpha * (target - Q[board, move])
            if won or not free(after):
                break
            board = after


def against_random(n=500):
    score = 0
    for game in range(n):
        board, mine = (0,) * 9, game % 2 == 0
        while True:
            board, won = play(board, best(board) if mine else random.choice(free(board)))
            if won or not free(board):
                score += won * (1 if mine else -1)
                break
            mine = not mine
    return score / n


learn()
print("mean result against random play", against_random())
