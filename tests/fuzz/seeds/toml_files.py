"""Seeds of the files that people write by hand: clusters, networks, streams, variants, labs."""

from __future__ import annotations

from pathlib import Path

from benchmarks.lab.spec import load_spec

from tests.fuzz.seeds.seed import Seed
from tests.support.streams import INSPECTION
from weft import formats
from weft.formats.batch.jobs import load_commands
from weft.formats.native.stream_toml import load_stream, load_streams
from weft.formats.native.variants import load_variants

FILES = Path(__file__).parents[2] / "formats" / "samples"

CLUSTER_TOML = (FILES / "two_nodes.toml").read_text()
NETWORK_TOML = """[links]
node_bandwidth = "300 GB/s"
[[devices]]
node = "n0"
[[devices]]
node = "n1"
[network]
sharing = "one-port"
[[network.ports]]
nodes = ["n0"]
up = "10 Gbit/s"
down = "5 Gbit/s"
latency = "5 us"
switch = "left"
[[network.ports]]
nodes = ["n1"]
up = "10 Gbit/s"
switch = "right"
[[network.trunks]]
between = ["left", "right"]
oversubscription = 4
latency = "1 us"
"""
STREAM_TOML = 'name = "inspection"\ntick = "1 ms"\nstart = "look"\n' + INSPECTION.replace(
    'process = "poisson"', 'process = "normal"\ndeviation = "4 ms"'
).replace(
    "estimate = true",
    'estimate = true\nchange = "steps"\nat = [{time = "60 s", branches = {odd = 0.3, fine = 0.7}}]',
)
MACHINES_TOML = """[links]
bandwidth = "10 GB/s"
[[devices]]
name = "gpu"
count = 2
kind = "A100"
node = "n0"
batch = 4
batch_curve = {conv = 0.4, net = [1, 1.2, 1.3, 1.5]}
setup = {conv = {time = "3 s", memory = "8 GB", pinned = true}, net = "1 s"}
cache = "30 GB"
switch = "5 ms"
[[devices]]
name = "cpu"
node = "n1"
[nodes.n0]
price = 4.0
capacity = {cores = 32, memory = "256 GB", licence = 2}
[nodes.n1]
capacity = {cores = 4, memory = "16 GB", licence = 0}
"""
STREAMS_TOML = """name = "two"
tick = "1 ms"
[[streams]]
name = "camera"
jobs = 20
deadline = "400 ms"
priority = 2
[streams.arrivals]
process = "poisson"
gap = "40 ms"
[[streams.tasks]]
name = "detect"
time = {GPU = "10 ms", CPU = "30 ms"}
kind = "vision"
output = "3 MB"
repeat = {most = 3, again = 0.2}
then = ["track"]
[[streams.tasks]]
name = "track"
time = "2 ms"
[[streams]]
name = "text"
jobs = 5
[streams.arrivals]
process = "trace"
times = [0, "20 ms", 0.5]
[[streams.tasks]]
name = "read"
time = "5 ms"
kind = "vision"
[[units]]
name = "GPU"
batch = 8
batch_curve = {vision = 0.2}
setup = {vision = {time = "20 ms", memory = "4 GB"}}
cache = "8 GB"
switch = "1 ms"
node = "a"
[[units]]
name = "CPU"
coefficient = 3.0
batch = 1
node = "b"
[network]
sharing = "fair"
[[network.ports]]
nodes = ["a", "b"]
up = "10 Gbit/s"
latency = "5 us"
"""
NETWORK_STREAM_TOML = """jobs = 10
[arrivals]
process = "regular"
gap = 2
[[tasks]]
name = "a"
time = 1
output = "1 GB"
then = "b"
[[tasks]]
name = "b"
time = 1
[[choices]]
task = "b"
branches = {more = 0.5, none = 0.5}
leads_to = {more = [], none = []}
change = "walk"
spread = 0.1
low = 0.2
high = 0.8
[[units]]
name = "u"
count = 2
batch = 1
[network]
sharing = "one-port"
[[network.ports]]
nodes = ["u0", "u1"]
up = "8 Gbit/s"
"""
VARIANTS_TOML = """[[variants]]
of = "small"
name = "wide"
seconds = 2.0
cores = 2
memory = "4 GB"
needs = {licence = 1}
accuracy = 0.81
cost = 0.01
devices = ["gpu"]
[[variants]]
of = "net"
name = "slow"
seconds_on = {cpu = 2.0, gpu = "300 ms"}
[[variants]]
of = "net"
name = "fast"
factor = 0.5
"""
LAB_TOML = """core = 0.8
head_link = "1gbit"
[[host]]
name = "a"
speed = 0.5
cores = 2
memory = "1gb"
link = "80mbit"
[[host]]
name = "b"
[[pair]]
between = ["a", "b"]
link = "5mbit"
"""
COMMANDS = b'{"align": ["bwa", "mem", "{task}"], "sort": ["sort"]}'


def toml_seeds() -> dict[str, Seed]:
    """Return name -> seed."""
    files = {
        "cluster-toml": (CLUSTER_TOML, formats.load_cluster),
        "machines-toml": (MACHINES_TOML, formats.load_cluster),
        "network-toml": (NETWORK_TOML, formats.load_cluster),
        "stream-toml": (STREAM_TOML, load_stream),
        "stream-toml network": (NETWORK_STREAM_TOML, load_stream),
        "stream-toml several": (STREAMS_TOML, load_streams),
        "variants-toml": (VARIANTS_TOML, load_variants),
        "lab-toml": (LAB_TOML, load_spec),
    }
    made = {name: Seed(".toml", text.encode(), read) for name, (text, read) in files.items()}
    made["commands"] = Seed(".json", COMMANDS, load_commands)
    return made
