"""docs/reference/command-line.md is `--help` of every command. TWOBW_UPDATE_DOCS=1 writes it again."""
import functools
import os
import re

from support import ROOT, TestCase, twobw

PAGE = ROOT / "docs" / "reference" / "command-line.md"
INTRO = """# Command line

`SETTINGS` is `[CONFIG.yaml] [key.path=value ...]`, the [configuration](configuration.md). `--stages=4` shows a default,
`--out=TEXT` a type, (1..32) a range. Options that an earlier command has with the same text are listed by name. A test
keeps this page equal to `twobw COMMAND --help`.
"""
CONFIG = "[CONFIG.yaml] [key.path=value ...]"


@functools.cache
def help_of(*command):
    process = twobw(*command, "--help")
    assert process.returncode == 0, process.stderr
    return process.stdout


def entries(text, group):
    """[(name, meaning)] of a group such as "Options:", each on one line."""
    found = re.search(rf"(?ms)^{group}:\n(.*?)\n\n", text)
    if not found:
        return []
    lines = re.sub(r"\n {20,}", "   ", found[1])
    return [tuple(re.split(r" {2,}", line.strip(), maxsplit=1)) for line in lines.split("\n")]


def brief(name):
    """'--seeds INT:INT in [1 - 1000]=3' is '--seeds=3 (1..1000)', '--out TEXT REQUIRED' is '--out=TEXT'."""
    name = re.sub(r":(POSITIVE|NONNEGATIVE)| Excludes: \S+| REQUIRED|\{false\}", "", name)
    name = re.sub(r"--(\S+),--no-\1", r"--[no-]\1", name)
    parts = re.fullmatch(r"(\S+)(?: (\w+)(?::\w+ in \[(\S+) - (\S+)\]|:(\{\S*?\}))?(?:=\[?(.*?)\]?)?( \.\.\.)?)?", name)
    option, type, low, high, choices, default, more = parts.groups()
    if not option.startswith("-"):  # a positional
        return option
    value = choices or default or type
    limits = f" ({low}..{high})" if low else f" ({default})" if choices and default else ""
    return option + (f"={value}" if value else "") + limits + (more or "")


def lines_of(command, seen):
    text = help_of(*command)
    usage = re.search(r"(?m)^Usage: (.*)", text)[1].replace(" [OPTIONS]", "").replace("[config...]", "SETTINGS")
    rows, repeated = [], []
    for name, meaning in entries(text, "Positionals") + entries(text, "Options"):
        row = (brief(name), meaning)
        if name == "-h,--help" or meaning.startswith(CONFIG):
            continue
        if row in seen:
            repeated.append(re.split(r"[ =]", row[0])[0])
        else:
            rows.append(row)
            seen.add(row)
    width = min(24, max((len(name) for name, _ in rows), default=0))
    lines = [usage, *(f"  {name:<{width}}  {meaning}" for name, meaning in rows)]
    return lines + (["  also " + " ".join(repeated)] if repeated else [])


def render_command(command, seen):
    text = help_of(command)
    below = re.search(r"(?ms)^(?!Options)\w+:\n(.*?)\n\n", text) if "SUBCOMMAND" in text else None
    lines = []
    for name, purpose in re.findall(r"(?m)^  (\w+) +(\S.*)", below[1]) if below else []:
        lines += [f"# {purpose}", *lines_of((command, name), seen)]
    block = "\n".join(f"    {line}" for line in lines or lines_of((command,), seen))
    purpose = text[:text.index("\nUsage: ")].replace("\n", " ")
    return f"\n## {command}\n\n{purpose}.\n\n{block}\n"


def render_page():
    groups = re.findall(r"(?ms)^(\w+):\n((?:  \w+ +\S[^\n]*\n)+)", help_of())
    commands = [name for group, names in groups if group != "Examples" for name in re.findall(r"(?m)^  (\w+) ", names)]
    seen = set()
    return INTRO + "".join(render_command(command, seen) for command in commands)


class CommandLineTest(TestCase):
    def test_the_page_is_the_help(self):
        page = render_page()
        if os.environ.get("TWOBW_UPDATE_DOCS"):
            PAGE.parent.mkdir(exist_ok=True)
            PAGE.write_text(page)
        self.assertEqual(PAGE.read_text(), page, "run again with TWOBW_UPDATE_DOCS=1")
