"""`weft.export_onnx`: onnxruntime computes what weft computes, for every network policy."""

import json

import numpy as np
import pytest

import weft
from weft.errors import Unsupported
from weft.policies.conditional.networks import Network, logits
from weft.policies.graph.policy import GraphPolicy
from weft.policies.q_network import q_value
from weft.policies.two_stage.dqn import TwoStageDqn

NETWORKS = ["conditional-any", "conditional-best", "conditional-paper-best", "conditional-pi0"]
NETWORKS += ["conditional-pi1", "conditional-pi2", "conditional-pi3", "conditional-pi4"]
NETWORKS += ["dqn", "replan-switch", "search-replanning", "decima", "lachesis"]


def own_outputs(policy, name, row):
    """Return what weft computes for one row of an input."""
    if isinstance(policy, GraphPolicy):
        return logits(getattr(policy.learned.network, name), row).ravel()
    if isinstance(policy, TwoStageDqn):
        return np.array([q_value(policy.network, ["task", "device"].index(name), row)])
    if name in ("pair_spread", "device_spread"):
        which = ["pair_spread", "device_spread"].index(name)
        return np.array([q_value(policy.shrinkage_network, which, row)])
    if name == "option":
        return np.array([q_value(policy.switch_network, 0, row)])
    assert isinstance(policy.network, Network)
    return logits(policy.network, row).ravel()


@pytest.mark.parametrize("name", NETWORKS)
def test_onnxruntime_computes_the_same(name, tmp_path):
    runtime = pytest.importorskip(
        "onnxruntime", reason="the peer is not installed: pip install 'weft-scheduling[learn]'"
    )
    policy = weft.load_policy(name)
    path = str(tmp_path / "policy.onnx")
    weft.export_onnx(policy, path)
    session = runtime.InferenceSession(path)
    notes = session.get_modelmeta().custom_metadata_map
    features = json.loads(notes["features"])
    assert notes["policy"] == name
    assert len(notes["use"]) > 20
    rng, pairs = (
        np.random.default_rng(1),
        zip(session.get_inputs(), session.get_outputs(), strict=True),
    )
    rows = {i.name: rng.random((7, i.shape[1])).astype(np.float32) for i in session.get_inputs()}
    assert features.keys() == rows.keys()
    for given, made in pairs:
        assert len(set(features[given.name])) == given.shape[1]
        (found,) = session.run([made.name], rows)
        for row, one in zip(rows[given.name], found, strict=True):
            own = own_outputs(policy, given.name, row)
            scale = max(1.0, float(abs(own).max()))  # sums of numbers of that size, in float32
            assert one.ravel() / scale == pytest.approx(own / scale, abs=1e-5)


def test_every_network_policy_is_exported(tmp_path):
    for name in weft.list_policies():
        if name in NETWORKS:
            assert weft.export_onnx(str(name), tmp_path / "x.onnx").is_file()
        else:
            with pytest.raises(Unsupported, match="has no network"):
                weft.export_onnx(str(name), tmp_path / "x.onnx")


def test_features_have_the_order_of_the_observation(tmp_path):
    """A queue of one kind shows up where the file says."""
    from weft.formats.native.stream_toml import load_stream
    from weft.policies.onnx_export import _observation_names

    policy = weft.load_policy("conditional-best")
    workload, _ = load_stream("conditional-paper").with_jobs(3).draw(1)
    policy.begin(workload)
    session = weft.Session("conditional-paper", "unit-fifo")
    session.arrived(at=0.0)
    view = session._life.view(0.0)
    policy.begin(view.workload)
    seen = policy.observe(view)
    names = _observation_names(policy)
    assert len(names) == len(seen)
    shown = {name for name, value in zip(names, seen, strict=True) if value > 0}
    assert shown == {"queue of kind 0", "estimate 0", "jobs"}
