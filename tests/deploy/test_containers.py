"""deploy/: what the image, the compose file and the chart promise, without a registry, a daemon or a cluster."""

import copy
import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer.main
import yaml

from rlclinic.launch import places
from rlclinic.ops.jobs import pool
from rlclinic.runs.object_store import artifacts
from rlclinic.serve.cli.app import app
from rlclinic.serve.http.app import bare_app
from rlclinic.serve.http.replicas import redis_link
from rlclinic.serve.http.security.guard import OPEN
from rlclinic.serve.http.settings import PORT
from tests.deploy import chart
from tests.test_project import PYPROJECT, ROOT, pins

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SECRETS = {"database": {"existingSecret": "db"}, "token": {"existingSecret": "token"}}
EVERYTHING = {
    "database": {"url": "postgresql://clinic:secret@db/clinic"},
    "token": {"value": "t" * 32},
    "image": {"repository": "registry.example:5000/rlclinic", "tag": "0.1.0-cuda"},
    "imagePullSecrets": [{"name": "pull"}],
    "server": {"hosts": ["a.example", "b.example"], "https": False, "readOnly": True, "extraArgs": ["--workers", "4"]},
    "worker": {
        "tags": ["gpu", "large"],
        "gpus": 1,
        "jobs": 2,
        "nodeSelector": {"gpu": "yes"},
        "extraEnv": [{"name": "RLCLINIC_TRUST", "value": "all"}],
    },
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls", "annotations": {"a": "b"}},
    "runs": {"storageClass": "nfs"},
    "redis": {"enabled": True, "url": "redis://:hush@redis:6379/0"},
    "artifacts": {"url": "s3://bucket/runs"},
}
CHOICES = [SECRETS, EVERYTHING]


def pods(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [made["spec"]["template"]["spec"] for made in chart.render(values) if made["kind"] == "Deployment"]


def containers(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for pod in pods(values) for one in (*pod.get("initContainers", []), *pod["containers"])]


def find(kind: str, values: dict[str, Any], ending: str = "") -> dict[str, Any]:
    (made,) = [one for one in chart.render(values) if one["kind"] == kind and one["metadata"]["name"].endswith(ending)]
    return made


def check_command(words: list[str]) -> None:
    """AssertionError unless `rlclinic` has this command with these options."""
    command: Any = typer.main.get_command(app)
    while words and hasattr(command, "commands") and words[0] in command.commands:
        command = command.commands[words[0]]
        words = words[1:]
    known = {option: parameter for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    options = [word for word in words if word.startswith("--")]
    assert set(options) <= set(known), f"{command.name} has no {set(options) - set(known)}"
    values = sum(not known[option].is_flag for option in options)
    arguments = sum(parameter.param_type_name == "argument" for parameter in command.params)
    assert len(words) == len(options) + values + arguments, f"{command.name} {words}"


def find_faults(schema: str, thing: dict[str, Any]) -> list[str]:
    """What a schema of others says against something of ours."""
    asked = json.loads((ROOT / "tests" / "deploy" / "schemas" / f"{schema}.json").read_text())
    return [error.message for error in jsonschema.Draft202012Validator(asked).iter_errors(thing)]


def read_variables() -> set[str]:
    """Variables that the package reads."""
    texts = "\n".join(path.read_text() for path in (ROOT / "rlclinic").rglob("*.py"))
    return set(re.findall(r'"(RLCLINIC_[A-Z_]+)"', texts))


# Of Python, libpq, matplotlib and the shell; of PostgreSQL's own image.
OTHERS = {"PATH", "HOME", "MPLCONFIGDIR", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PGPASSWORD"}
POSTGRES = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"}


# ── the image ──


def instructions() -> list[tuple[str, str]]:
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE)).splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines if line]


def test_the_image_has_the_pinned_torch_and_extras_that_exist() -> None:
    given = dict(value.split("=", 1) for word, value in instructions() if word == "ARG")
    assert given["TORCH"] == pins()["torch"]
    assert set(given["EXTRAS"].split(",")) <= set(PYPROJECT["project"]["optional-dependencies"])
    assert re.fullmatch(r"python:3\.11\.\d+-slim-\w+", given["BASE"]), "a base without a version is another one tomorrow"


def test_the_image_starts_as_nobody_and_the_last_word_on_users_is_a_number() -> None:
    last = [word for word, _ in instructions()]
    (user,) = [value for word, value in instructions() if word == "USER"]
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user), "runAsNonRoot can check a number only"
    assert last.index("USER") < last.index("ENTRYPOINT")
    assert "RUN" not in last[last.index("USER") :]


def test_the_image_starts_a_command_that_exists_on_the_port_that_it_names() -> None:
    said = dict(instructions())
    assert yaml.safe_load(said["ENTRYPOINT"]) == ["rlclinic"]
    check_command(yaml.safe_load(said["CMD"]))
    assert int(said["EXPOSE"]) == PORT
    names = set(re.findall(r"(\w+)=", " ".join(value for word, value in instructions() if word == "ENV")))
    assert names - {"PIP_DISABLE_PIP_VERSION_CHECK", "PIP_NO_CACHE_DIR"} <= OTHERS | read_variables()


def test_the_image_is_made_of_what_is_let_in_and_that_is_there() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [word for kind, value in instructions() if kind == "COPY" and "--from" not in value for word in value.split()[:-1]]
    assert set(copied) == set(allowed)
    assert all((ROOT / name).exists() for name in copied)
    needed = {PYPROJECT["project"]["readme"], *PYPROJECT["project"]["license-files"]}
    assert needed <= set(copied), "the package could not be built"


# ── compose ──


def test_the_compose_file_has_only_names_that_compose_knows() -> None:
    assert find_faults("compose", COMPOSE) == []
    wrong = copy.deepcopy(COMPOSE)
    wrong["services"]["worker"]["heathcheck"] = {}
    assert find_faults("compose", wrong) != []


def test_no_image_has_a_version_that_moves() -> None:
    named = [service["image"] for service in COMPOSE["services"].values()]
    named += [one["image"] for values in CHOICES for one in containers(values)]
    for image in named:
        image = re.sub(r"\$\{\w+:-(.*)\}", r"\1", image)
        tag = image.rpartition("/")[2].partition(":")[2]
        assert re.match(r"\d+\.\d+", tag), image


@pytest.mark.parametrize("name", ["migrate", "token", "server", "worker"])
def test_a_service_of_ours_has_no_rights_and_does_a_command_that_exists(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["user"] == "10001:10001"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "privileged" not in service
    check_command(service["command"])
    assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory"}
    assert set(service["environment"]) <= OTHERS | read_variables()


def test_the_database_is_reached_from_inside_alone_and_no_secret_is_in_the_file() -> None:
    services = COMPOSE["services"]
    assert COMPOSE["networks"]["inside"]["internal"] is True
    assert services["db"]["networks"] == ["inside"]
    assert "ports" not in services["db"]
    assert set(services["db"]["environment"]) == POSTGRES
    text = (DEPLOY / "compose.yaml").read_text()
    assert re.findall(r"PASSWORD: (.*)", text) == ["${RLCLINIC_DB_PASSWORD:?set it in .env}"] * 2
    assert not re.search(r"//\w+:[^@/]+@", text)


@pytest.mark.parametrize("name", ["server", "worker"])
def test_who_puts_runs_into_an_object_store_reaches_it_with_credentials_that_git_does_not_know(name: str) -> None:
    """A worker on the network of the database alone has no way out: everything that it put there would be lost in silence."""
    service = COMPOSE["services"][name]
    assert "RLCLINIC_ARTIFACTS" in service["environment"]
    assert [network for network in service["networks"] if not (COMPOSE["networks"][network] or {}).get("internal")] != []
    (given,) = service["env_file"]
    assert given["required"] is False
    assert f"/deploy/{given['path']}" in (ROOT / ".gitignore").read_text().splitlines()
    assert f"deploy/{given['path']}" in (ROOT / "docs" / "deploy.md").read_text()


def test_redis_is_reached_from_inside_alone_keeps_nothing_and_nobody_waits_for_it() -> None:
    redis = COMPOSE["services"]["redis"]
    assert redis["networks"] == ["inside"]
    assert "ports" not in redis
    assert "volumes" not in redis
    assert redis["command"][1:5] == ["--save", "", "--appendonly", "no"]
    assert redis["read_only"] is True
    assert redis["cap_drop"] == ["ALL"]
    assert all("redis" not in service.get("depends_on", {}) for service in COMPOSE["services"].values())
    named = COMPOSE["services"]["server"]["environment"]["RLCLINIC_REDIS"]
    redis_link.check(named)
    assert named == "redis://redis:6379/0"


def test_the_chart_names_redis_and_the_object_store_where_they_are_chosen() -> None:
    def variables(values: dict[str, Any], part: str) -> dict[str, Any]:
        (one,) = find("Deployment", values, part)["spec"]["template"]["spec"]["containers"]
        return {variable["name"]: variable for variable in one["env"]}

    assert "RLCLINIC_REDIS" not in variables(SECRETS, "-server")
    assert "RLCLINIC_ARTIFACTS" not in variables(SECRETS, "-worker")
    secret = variables(EVERYTHING, "-server")["RLCLINIC_REDIS"]["valueFrom"]["secretKeyRef"]
    assert secret == {"name": "test-rlclinic-redis", "key": "url"}
    assert artifacts.check(variables(EVERYTHING, "-worker")["RLCLINIC_ARTIFACTS"]["value"]) == "s3://bucket/runs"
    with pytest.raises(chart.ChartError, match="redis"):
        chart.render({**SECRETS, "redis": {"enabled": True}})


def test_a_worker_has_longer_to_leave_than_its_jobs_need_for_their_checkpoints() -> None:
    seconds = {"m": 60, "s": 1}
    given = COMPOSE["services"]["worker"]["stop_grace_period"]
    assert int(given[:-1]) * seconds[given[-1]] > pool.DRAIN_SECONDS
    for values in CHOICES:
        assert find("Deployment", values, "-worker")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > pool.DRAIN_SECONDS


# ── the chart ──


@pytest.mark.parametrize("values", CHOICES, ids=["usual", "everything"])
def test_every_container_of_the_chart_is_confined(values: dict[str, Any]) -> None:
    for pod in pods(values):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for one in containers(values):
        context = one["securityContext"]
        assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"cpu", "memory"} <= one["resources"]["limits"].keys()
        assert {"/tmp", "/work/runs"} <= {mount["mountPath"] for mount in one["volumeMounts"]}
        check_command(one["args"])
        assert {variable["name"] for variable in one.get("env", [])} <= read_variables()


@pytest.mark.parametrize("values", CHOICES, ids=["usual", "everything"])
def test_what_is_mounted_is_there_and_selectors_find_their_pods(values: dict[str, Any]) -> None:
    for pod in pods(values):
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert volumes == {mount["name"] for one in (*pod.get("initContainers", []), *pod["containers"]) for mount in one["volumeMounts"]}
    deployments = {made["metadata"]["name"]: made["spec"] for made in chart.render(values) if made["kind"] == "Deployment"}
    for spec in deployments.values():
        assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    service = find("Service", values)["spec"]
    labels = [spec["template"]["metadata"]["labels"] for spec in deployments.values()]
    assert sum(service["selector"].items() <= one.items() for one in labels) == 1, "the service would answer from workers, too"


def test_probes_ask_routes_that_exist_and_are_open() -> None:
    known = {(method.upper(), path) for path, methods in bare_app().openapi()["paths"].items() for method in methods}
    asked = [
        (probe["httpGet"], one["ports"])
        for one in containers(SECRETS)
        for kind in ("startupProbe", "livenessProbe", "readinessProbe")
        if "httpGet" in (probe := one.get(kind, {}))
    ]
    (address,) = re.findall(r"http://127\.0\.0\.1:(\d+)([^']+)", str(COMPOSE["services"]["server"]["healthcheck"]))
    assert len(asked) == 3
    assert int(address[0]) == PORT
    for path in (*(probe["path"] for probe, _ in asked), address[1]):
        assert ("GET", path) in known
        assert OPEN.fullmatch(path), "a probe has no token"
    assert all(ports == [{"name": probe["port"], "containerPort": PORT}] for probe, ports in asked)


@pytest.mark.parametrize("age", [0, 600])
def test_the_probes_of_workers_see_whether_the_file_is_young(age: int, tmp_path: Path) -> None:
    (worker,) = find("Deployment", SECRETS, "-worker")["spec"]["template"]["spec"]["containers"]
    named = worker["args"][worker["args"].index("--alive") + 1]
    alive = tmp_path / "alive"
    alive.touch()
    os.utime(alive, (alive.stat().st_mtime - age,) * 2)
    chosen = COMPOSE["services"]["worker"]["healthcheck"]["test"][1].replace("$$", "$")
    for command in (worker["livenessProbe"]["exec"]["command"], ["sh", "-c", chosen]):
        asked = [word.replace(named, shlex.quote(str(alive))) for word in command]
        assert asked != command
        assert (subprocess.run(asked, check=False).returncode == 0) == (age < 60)


def test_secrets_are_named_and_made_only_where_none_are_named() -> None:
    assert [made for made in chart.render(SECRETS) if made["kind"] == "Secret"] == []
    named = [one["env"][0]["valueFrom"]["secretKeyRef"] for one in containers(SECRETS) if "env" in one]
    assert named == [{"name": "db", "key": "url"}] * 3
    made = {one["metadata"]["name"]: one["stringData"] for one in chart.render(EVERYTHING) if one["kind"] == "Secret"}
    assert sorted(made) == ["test-rlclinic-database", "test-rlclinic-redis", "test-rlclinic-token"]
    workloads = [made for made in chart.render(EVERYTHING) if made["kind"] != "Secret"]
    assert "secret@db" not in str(workloads)
    assert "hush" not in str(workloads)
    assert "t" * 32 not in str(workloads)


def test_workers_with_disks_of_their_own_share_the_object_store_and_somebody_plans_beside_the_server() -> None:
    values = {**SECRETS, "worker": {"ownDisk": True}, "artifacts": {"url": "s3://bucket/runs"}, "runs": {"accessMode": "ReadWriteOnce"}}
    server = find("Deployment", values, "-server")["spec"]["template"]["spec"]
    worker = find("Deployment", values, "-worker")["spec"]["template"]["spec"]
    runs = {pod["containers"][0]["name"]: next(volume for volume in pod["volumes"] if volume["name"] == "runs") for pod in (server, worker)}
    assert "persistentVolumeClaim" in runs["server"]
    assert runs["worker"]["emptyDir"] == {"sizeLimit": "20Gi"}
    (planner,) = [one for one in server["containers"] if one["name"] == "planner"]
    check_command(planner["args"])
    assert planner["args"][:3] == ["worker", "--jobs", "0"]
    (migrate,) = [one for one in server["initContainers"] if one["name"] == "migrate"]
    # It is the first in the server's folder, and says that jobs are started there: a worker that came before would keep it for itself.
    for one in (migrate, *server["containers"], *worker["containers"]):
        assert {"RLCLINIC_DB", "RLCLINIC_ARTIFACTS"} <= {variable["name"] for variable in one["env"]}
        assert one["securityContext"]["readOnlyRootFilesystem"] is True
    with pytest.raises(chart.ChartError, match=r"needs artifacts\.url"):
        chart.render({**SECRETS, "worker": {"ownDisk": True}})


@pytest.mark.parametrize("missing", [{}, {"database": {"url": "postgresql://x"}}, {"token": {"value": "t" * 32}}])
def test_a_chart_without_a_database_or_a_token_is_refused(missing: dict[str, Any]) -> None:
    with pytest.raises(chart.ChartError, match="existingSecret"):
        chart.render(missing)


def test_what_is_chosen_reaches_the_pods() -> None:
    server = find("Deployment", EVERYTHING, "-server")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [server[at + 1] for at, word in enumerate(server) if word == "--allow-host"] == [
        *("test-rlclinic-server", "a.example", "b.example", "rlclinic.example")
    ]
    assert "--read-only" in server
    assert "--https" not in server
    worker = find("Deployment", EVERYTHING, "-worker")["spec"]["template"]["spec"]
    (one,) = worker["containers"]
    assert one["args"][3:] == ["--tags", "gpu,large", "--jobs", "2"]
    assert one["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert worker["nodeSelector"] == {"gpu": "yes"}
    assert find("PersistentVolumeClaim", EVERYTHING)["spec"]["storageClassName"] == "nfs"


WITH_RAY = {**SECRETS, "ray": {"enabled": True, "gpus": 1, "gpusPerCohort": 0.25, "nodeSelector": {"gpu": "yes"}}}


def test_a_ray_cluster_is_made_only_where_it_is_chosen_and_its_containers_are_confined() -> None:
    for values in CHOICES:
        assert [made for made in chart.render(values) if made["kind"] == "RayCluster" or made["metadata"]["name"].endswith("-ray")] == []
    made = find("RayCluster", WITH_RAY)
    (group,) = made["spec"]["workerGroupSpecs"]
    assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    assert made["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert all(isinstance(value, str) for value in made["spec"]["headGroupSpec"]["rayStartParams"].values()), "Kubernetes takes texts alone"
    for template in (made["spec"]["headGroupSpec"]["template"], group["template"]):
        assert template["spec"]["automountServiceAccountToken"] is False
        assert template["spec"]["securityContext"]["runAsNonRoot"] is True
        (one,) = template["spec"]["containers"]
        assert one["securityContext"]["readOnlyRootFilesystem"] is True
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert {"cpu", "memory"} <= one["resources"]["limits"].keys()
        assert {mount["name"] for mount in one["volumeMounts"]} == {volume["name"] for volume in template["spec"]["volumes"]}
    assert group["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert group["template"]["spec"]["nodeSelector"] == {"gpu": "yes"}
    assert made["spec"]["rayVersion"] == pins()["ray"]


def test_a_ray_cluster_has_only_names_that_kuberay_knows() -> None:
    spec = find("RayCluster", WITH_RAY)["spec"]
    assert find_faults("raycluster", spec) == []
    wrong = copy.deepcopy(spec)
    wrong["workerGroupSpecs"][0]["rayStartParam"] = {}
    assert find_faults("raycluster", wrong) != []


def test_the_nodes_of_a_ray_cluster_are_asked_on_ports_that_they_have() -> None:
    """KubeRay would ask the agent of Ray's dashboard, which the extra `ray` does not bring: no node would ever be ready."""
    spec = find("RayCluster", WITH_RAY)["spec"]
    parts = (spec["headGroupSpec"], *spec["workerGroupSpecs"])
    for part in parts:
        (one,) = part["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in one["ports"]}
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert one[kind]["tcpSocket"]["port"] in ports, "what KubeRay finds it leaves as it is"
        params = part["rayStartParams"]
        # What is not said Ray chooses anew each time.
        named = {
            "gcs": params.get("port", "6379"),
            "client": params.get("ray-client-server-port", "10001"),
            "raylet": params.get("node-manager-port"),
        }
        assert ports == {name: int(named[name]) for name in ports}


def test_ray_and_disks_of_their_own_are_refused() -> None:
    with pytest.raises(chart.ChartError, match=r"ray\.enabled and worker\.ownDisk"):
        chart.render({**WITH_RAY, "worker": {"ownDisk": True}, "artifacts": {"url": "s3://bucket/runs"}})


def test_workers_train_on_the_ray_cluster_and_nobody_else_reaches_it() -> None:
    (worker,) = find("Deployment", WITH_RAY, "-worker")["spec"]["template"]["spec"]["containers"]
    (where,) = [variable["value"] for variable in worker["env"] if variable["name"] == places.VARIABLE]
    place = places.read(where)
    assert place == places.RayPlace(f"ray://{find('RayCluster', WITH_RAY)['metadata']['name']}-head-svc:10001", 0.25)
    policy = find("NetworkPolicy", WITH_RAY, "-ray")["spec"]
    nodes = find("RayCluster", WITH_RAY)["spec"]["headGroupSpec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= nodes.items()
    allowed = [one["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for one in policy["ingress"][0]["from"]]
    assert allowed == ["ray", "worker"]


def test_the_chart_has_the_version_of_the_package() -> None:
    about = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
    assert about["appVersion"] == PYPROJECT["project"]["version"]
    assert f"rlclinic:{about['appVersion']}" in (DEPLOY / "compose.yaml").read_text()


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ if .Values.x }}a", "no end"),
        ("{{ foo .Values.x }}", "no function"),
        ("{{ .Values.missing }}", "no value"),
        ("{{.Values.x}}", "understood"),
    ],
)
def test_a_template_that_the_renderer_does_not_know_is_an_error(template: str, says: str) -> None:
    with pytest.raises(chart.ChartError, match=says):
        chart.run(chart.parse(template), {"Values": {"x": 1}}, {})


# ── the page ──


def test_the_page_names_values_variables_and_files_that_exist() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text()
    usual = yaml.safe_load((chart.CHART / "values.yaml").read_text())
    for name in re.findall(r"--set '?([\w.]+)=", page):
        value: Any = usual
        for part in name.split("."):
            assert part in value, name
            value = value[part]
    compose = (DEPLOY / "compose.yaml").read_text()
    for name in re.findall(r"^\| `(RLCLINIC_\w+)`", page, flags=re.MULTILINE):
        assert f"${{{name}" in compose, name
    named = set(re.findall(r"(?:tests/)?deploy/[\w./]*\w", page)) - {"deploy/token", "deploy/artifacts.env"}
    assert {"deploy/Dockerfile", "deploy/compose.yaml", "deploy/chart"} <= named
    assert [path for path in named if not (ROOT / path).exists()] == []
