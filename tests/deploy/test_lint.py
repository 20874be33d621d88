"""deploy/ as the tools of others see it: Helm itself, the schema of Kubernetes, hadolint. They are not among our extras, and get an
environment of their own (`make deploy-tools`); what needs none of them is in test_containers.
"""

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy import chart
from tests.deploy.test_containers import EVERYTHING, SECRETS, WITH_RAY
from tests.test_project import ROOT

TOOLS = ROOT / "build" / "deploy-tools" / "bin"
pytestmark = pytest.mark.skipif(not (TOOLS / "hadolint").exists(), reason="no Helm, no schema, no hadolint: make deploy-tools")
OWN_DISK = {**SECRETS, "worker": {"ownDisk": True}, "artifacts": {"url": "s3://bucket/runs"}, "runs": {"accessMode": "ReadWriteOnce"}}
CHOICES = {"usual": SECRETS, "everything": EVERYTHING, "ray": WITH_RAY, "own disk": OWN_DISK}
HELM = """
import json, sys
from helm_python import Chart, lint
place, values = sys.argv[1], json.loads(sys.argv[2])
print(json.dumps({"said": lint(place, values, strict=True), "made": Chart.load(place).render(values, name="test", namespace="default")}))
"""


def ask_helm(values: dict[str, Any]) -> dict[str, Any]:
    """What Helm makes of the chart, and what it says of it."""
    command = [TOOLS / "python", "-c", HELM, str(chart.CHART), json.dumps(values)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def validate(objects: list[dict[str, Any]], folder: Path) -> "subprocess.CompletedProcess[str]":
    """Against the schema of Kubernetes, in which a name that it does not know is an error. Of KubeRay's it knows the pods alone."""
    known = [made for made in objects if made["kind"] != "RayCluster"]
    for made in objects:
        if made["kind"] == "RayCluster":
            groups = (made["spec"]["headGroupSpec"], *made["spec"]["workerGroupSpecs"])
            about = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": made["metadata"]}
            known += [{**about, "template": group["template"]} for group in groups]
    file = folder / "made.yaml"
    file.write_text("\n---\n".join(yaml.safe_dump(made) for made in known))
    command = [TOOLS / "kubernetes-validate", "--strict", file]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("values", CHOICES.values(), ids=CHOICES)
def test_helm_finds_nothing_wrong_and_makes_what_our_renderer_makes(values: dict[str, Any]) -> None:
    """All other tests of the chart go by that renderer."""
    answer = ask_helm(values)
    assert [message for message in answer["said"]["messages"] if message["severity"] > 1] == answer["said"]["errors"] == []
    theirs = {
        name.rpartition("/")[2]: list(filter(None, yaml.safe_load_all(text)))
        for name, text in answer["made"].items()
        if name.endswith(".yaml")
    }
    ours = {
        name: list(filter(None, yaml.safe_load_all(text))) for name, text in chart.render_texts(values).items() if name.endswith(".yaml")
    }
    assert ours == theirs


@pytest.mark.parametrize("values", CHOICES.values(), ids=CHOICES)
def test_kubernetes_knows_every_name_in_the_chart(values: dict[str, Any], tmp_path: Path) -> None:
    made = chart.render(values)
    done = validate(made, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = copy.deepcopy(made)
    next(one for one in wrong if one["kind"] == "Deployment")["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    assert validate(wrong, tmp_path).returncode != 0, "a typo would not be seen"
    for cluster in [one for one in copy.deepcopy(made) if one["kind"] == "RayCluster"]:
        cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
        assert validate([cluster], tmp_path).returncode != 0, "a typo would not be seen"


def test_hadolint_finds_nothing_in_the_dockerfile_that_is_not_meant_so(tmp_path: Path) -> None:
    def lint(file: Path) -> str:
        command = [TOOLS / "hadolint", "--no-color", "--strict-labels", file]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout

    assert lint(ROOT / "deploy" / "Dockerfile") == ""
    wrong = tmp_path / "Dockerfile"
    wrong.write_text((ROOT / "deploy" / "Dockerfile").read_text() + "USER root\n")
    assert "DL3002" in lint(wrong)
