"""The tools suffice: every question of benchmarks.agents is answered right, in one call and few words."""

import pytest

from benchmarks import agents

LONG = [question for question in agents.QUESTIONS if question.asked.startswith("Does chance ever see a reward on MountainCar-v0")]
"""An environment is played for seconds; tests/diagnosis/lint and tests/attack/test_agents_code.py have small ones looked at."""


@pytest.mark.parametrize(
    "questions",
    [[question for question in agents.QUESTIONS if question not in LONG], pytest.param(LONG, marks=pytest.mark.loop)],
    ids=["short", "long"],
)
def test_every_question_is_answered_right(questions: list[agents.Question]) -> None:
    answers = agents.ask_all(questions)
    assert len(answers) == len(questions) > 0
    assert [(answer.asked, answer.said, answer.true, answer.tokens) for answer in answers if not answer.right] == []


def test_a_wrong_answer_would_be_noticed() -> None:
    question = agents.QUESTIONS[0]
    wrong = agents.Question(question.asked, question.tool, question.arguments, question.read, lambda _: {"something-else"}, question.agree)
    assert not agents.ask_all([wrong])[0].right
