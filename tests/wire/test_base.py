from server.wire.base import listed, path_of


def test_paths_are_written_as_clients_write_them() -> None:
    assert path_of(("tools", 2, "function", "parameters")) == "tools[2].function.parameters"
    assert path_of(("tool_choice", "<named>", "function")) == "tool_choice.function"
    assert path_of(()) == ""


def test_a_path_does_not_echo_a_long_key() -> None:
    assert len(path_of(("logit_bias", "k" * 10_000))) < 100


def test_a_list_of_names_is_cut_at_a_name() -> None:
    assert listed(("a", "b")) == "a, b"
    names = tuple(f"tool_{n:03d}" for n in range(300))
    assert listed(names, 40) == "tool_000, tool_001, tool_002, tool_003 and 296 more"
