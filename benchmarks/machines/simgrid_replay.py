"""Replay one plan in SimGrid: an instance as JSON on stdin, the finish of each task on stdout.

Started by simgrid_compare.py with a Python that has the package `simgrid`; imports nothing of weft.
One process per instance, because SimGrid has one engine per process. Every node is a host with one
actor, which posts the receptions of all its inputs at time zero, then runs its tasks in order.
"""

import json
import sys

from simgrid import Actor, Engine, LinkInRoute, Mailbox, NetZone, this_actor

OPTIONS = {
    "network/model": "CM02",  # max-min fair sharing, without the factors of the TCP models
    "network/crosstraffic": 0,
    "network/TCP-gamma": 0,
    "network/bandwidth-factor": 1,
    "network/latency-factor": 1,
    "network/weight-S": 0,
    "network/optim": "Full",  # the lazy update of 3.32 lets transfers exceed links
    "maxmin/precision": 1e-9,
    "surf/precision": 1e-9,
}


def main() -> None:
    case = json.load(sys.stdin)
    engine = Engine(
        ["replay", "--log=root.thresh:error", *(f"--cfg={k}:{v}" for k, v in OPTIONS.items())]
    )
    zone = NetZone.create_full_zone("network")
    hosts = [zone.create_host(f"node {i}", 1e9) for i in range(case["nodes"])]
    links = [
        zone.create_link(f"link {i}", rate).set_latency(latency).seal()
        for i, (rate, latency) in enumerate(zip(case["rate"], case["latency"], strict=True))
    ]
    for a, b, path in case["routes"]:
        route = [LinkInRoute(links[x]) for x in path]
        zone.add_route(hosts[a].netpoint, hosts[b].netpoint, None, None, route, False)
    zone.seal()
    finish = [0.0] * len(case["seconds"])
    for node in range(case["nodes"]):
        Actor.create(f"device {node}", hosts[node], run_device, case, node, finish)
    engine.run()
    print(json.dumps(finish))


def run_device(case: dict, node: int, finish: list) -> None:
    tasks = [t for t in case["order"] if case["node"][t] == node]
    edges = list(enumerate(zip(case["src"], case["dst"], case["data"], strict=True)))
    far = [(e, u, v, x) for e, (u, v, x) in edges if case["node"][u] != case["node"][v]]
    coming = {
        e: Mailbox.by_name(str(e)).get_async() for e, _, v, _ in far if case["node"][v] == node
    }
    sent = []
    for task in tasks:
        for e, _, v, _ in far:
            if v == task:
                coming[e][0].wait()
        this_actor.sleep_for(case["seconds"][task])
        finish[task] = Engine.clock
        sent += [
            Mailbox.by_name(str(e)).put_async("data", int(x)) for e, u, _, x in far if u == task
        ]
    for transfer in sent:
        transfer.wait()


if __name__ == "__main__":
    main()
