"""The tools suffice: every question of benchmarks.agents is answered right, in one call and few words."""

from benchmarks import agents


def test_every_question_is_answered_right() -> None:
    answers = agents.ask_all()
    assert len(answers) >= 30
    assert [(answer.asked, answer.said, answer.true, answer.tokens) for answer in answers if not answer.right] == []


def test_a_wrong_answer_would_be_noticed() -> None:
    question = agents.QUESTIONS[0]
    wrong = agents.Question(question.asked, question.tool, question.arguments, question.read, lambda _: {"something-else"}, question.agree)
    assert not agents.ask_all([wrong])[0].right
