import re

from server.wire.ids import new_call_id, new_completion_id


def test_ids_have_the_form_that_every_template_takes_and_do_not_repeat() -> None:
    ids = {new_call_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert all(re.fullmatch("[A-Za-z0-9]{9}", one) for one in ids)
    assert re.fullmatch("chatcmpl-[A-Za-z0-9]{29}", new_completion_id())
