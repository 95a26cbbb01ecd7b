"""Compares pipelines on two hosts, which are network namespaces of this machine with links of a given rate.

    sudo .venv/bin/python benchmarks/network.py [--links 1gbit/1ms,10gbit] [--microbatches 8] [--only ...] [--json F]

Two workers, one core each. On every link: twobw under 2bw with the planner's e for that link, with e = 0 and under
flush, torch.distributed.pipelining's schedules and DistributedDataParallel, all over Gloo. Besides, without a link: the
same in one process, whose workers are threads, and in two processes over the loopback.

Every contender runs once a round, in short runs one after the other, odd rounds in the order of the table and even
ones backwards; the table gives medians. Layers are measured and plans are made anew in every round, and a plan's
forecast is held against its own run: machines have slow minutes. The hosts share the machine: their cores are those of
the other rows, and the kernel's work for the network is done on them too.
"""
import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import shlex
import statistics
import sys
import tempfile

import job as jobs
import pipeline
import ranks
import torch_pipelining

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))

import hosts as namespaces  # noqa: E402
from processes import Job, free_port, rank_environment  # noqa: E402

TORCH = ("1f1b", "interleaved", "zb", "zbv")
# The planner's idea of the hosts; times of layers are measured.
CLUSTER = """\
devices: {{core: {{memory: {memory}GiB, tflops: {{fp32: 0.05}}, memory_bandwidth: 20GB/s, efficiency: 0.7}}}}
nodes:
  - {{name: host, count: 2, devices: 1 x core, link: {{bandwidth: 20GB/s, latency: 20us}}}}
network: {{bandwidth: {gigabits}Gbit/s, latency: {latency}, shared: true}}
"""


def model_settings(options, job):
    return {"model.family": "gpt", "model.layers": job.layers, "model.width": job.width, "model.heads": job.heads,
            "model.vocab": job.vocab, "model.context": job.context, "model.tied": json.dumps(options.tied),
            "data.train": "synthetic", "data.validation": "synthetic", "pipeline.stages": 2,
            "pipeline.microbatch": job.microbatch, "pipeline.microbatches": job.microbatches,
            "optimizer.name": "adamw", "optimizer.clip": "1.0"}


def words(settings):
    return [f"{key}={value}" for key, value in settings.items()]


@dataclasses.dataclass(frozen=True)
class Link:
    rate: str
    delay: str | None = None  # None: that of the machine

    def __str__(self):
        return f"{self.rate}, {self.delay}" if self.delay else self.rate

    @staticmethod
    def parse(text):
        return Link(*text.split("/", 1))


class Plans:
    """The planner's choice for a link, from layer times that are measured once a round."""

    def __init__(self, options, job, folder):
        self._options, self._job, self._folder, self._plans = options, job, folder, {}

    def _twobw(self, *arguments):
        code, output, errors = pipeline.run([str(self._options.twobw), *map(str, arguments)], self._options.timeout)
        if code != 0:
            raise pipeline.Failed(ranks.last_sentence(errors or output, code))
        return output

    def renew(self):
        self._plans = {}
        (self._folder / "profile.json").unlink(missing_ok=True)

    def __call__(self, schedule, link=None, *more):
        """Settings and the forecast in tokens/s; without a link for one as fast as memory. `more`: for the planner."""
        profile, cluster = self._folder / "profile.json", self._folder / "cluster.yaml"
        model = words(model_settings(self._options, self._job))
        if not profile.exists():
            print("measuring twobw's layers", file=sys.stderr)
            self._twobw("profile", *model, "--sizes", self._job.microbatch, "--output", profile)
        key = schedule, link, *more
        if key not in self._plans:
            gigabits = namespaces.bits_per_second(link.rate) / 1e9 if link else 100
            memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**31
            cluster.write_text(CLUSTER.format(gigabits=gigabits, memory=max(memory, 1),
                                              latency=(link.delay or "200us") if link else "20us"))
            text = self._twobw("plan", *model, "--profile", profile, "--cluster", cluster, "--schedule", schedule,
                               "--stages", 2, "--replicas", 1, "--microbatch", self._job.microbatch,
                               "--microbatches", self._job.microbatches, "--no-recompute", "--json", *more)
            plan = json.loads(text)["plan"]
            split = [stage["last_layer"] - stage["first_layer"] + 1 for stage in plan["stage_plans"]]
            settings = {"pipeline.schedule": schedule, "pipeline.extra": plan["extra"],
                        "pipeline.step_slack": plan["step_slack"], "pipeline.defer_tied_update": json.dumps(plan["defer_tied_update"]),
                        "pipeline.split": json.dumps(split)}
            self._plans[key] = settings, plan["tokens_per_s"]
        return self._plans[key]


def run_twobw(options, job, plan, processes, hosts=None):
    """Two workers in one process or two, on this host or on one each; the figures of the run's summary."""
    settings_of_plan, forecast = plan
    cpus = ranks.cores(2)
    with tempfile.TemporaryDirectory() as folder:
        settings = {**model_settings(options, job), **settings_of_plan, "devices": f"[cpu:{cpus[0]}, cpu:{cpus[1]}]",
                    "train.updates": job.warmup + job.updates + 2, "train.eval_every": 0, "run_dir": f"{folder}/run"}
        command, port = [str(options.twobw), "train", *words(settings)], free_port()
        with Job() as started:
            for rank in range(processes):
                variables = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
                if processes > 1:
                    variables |= rank_environment(rank, processes, port, hosts.address(0) if hosts else "127.0.0.1",
                                                  local_size=1 if hosts else processes)
                started.start(hosts.command(rank, *command) if hosts else command, variables)
            try:
                codes = started.wait(options.timeout)
            except AssertionError:
                raise pipeline.Failed(f"no result within {options.timeout:g} s") from None
            for rank, code in enumerate(codes):
                if code != 0:
                    raise pipeline.Failed(f"rank {rank}: " + ranks.last_sentence(started.errors(rank), code))
            if processes > 1 and started.output(1):
                raise pipeline.Failed("this build has no runs in several processes: every rank ran alone")
        summary = json.loads(pathlib.Path(folder, "run", "summary.json").read_text())
    return {"tokens_per_s": float(summary["tokens_per_s"]), "forecast": forecast,
            "extra": settings_of_plan["pipeline.extra"], "defer_tied_update": settings_of_plan["pipeline.defer_tied_update"],
            "utilisation": [stage["utilisation"] for stage in summary["stages"]]}


def run_torch(options, job, script, arguments, hosts):
    """A baseline whose ranks run on the hosts."""
    variables = {ranks.HOSTS: json.dumps([hosts.command(rank) for rank in range(2)]), "GLOO_SOCKET_IFNAME": "eth0"}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        return pipeline.run_script(script, [*job.arguments(), "--stages", "2", *arguments], options.timeout)
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def contenders(options, plans, hosts):
    """{(link, name): function of the job that runs it once}, in the order of the tables."""
    def torch_split(job, schedule):
        cuts = torch_pipelining.cuts_for(job, schedule, 2, options.times())
        return ["--schedule", schedule, "--split", ",".join(map(str, cuts))]

    def shaped(link, run):
        def run_once(job):
            hosts.shape(link.rate, link.delay)
            return run(job)
        return run_once

    def without_extra(plan):
        return {**plan[0], "pipeline.extra": 0}, None

    table = {}
    for schedule in ("2bw", "flush"):
        table["none", f"twobw {schedule}, one process"] = (
            lambda job, schedule=schedule: run_twobw(options, job, plans(schedule), 1))
        table["none", f"twobw {schedule}, two processes"] = (
            lambda job, schedule=schedule: run_twobw(options, job, plans(schedule), 2))
    for link in options.links:
        table[str(link), "twobw 2bw, planner's e"] = shaped(
            link, lambda job, link=link: run_twobw(options, job, plans("2bw", link), 2, hosts))
        if options.tied:
            table[str(link), "twobw 2bw, no late tie"] = shaped(
                link, lambda job, link=link: run_twobw(options, job, plans("2bw", link, "--no-defer-tied-update"), 2, hosts))
        table[str(link), "twobw 2bw, e = 0"] = shaped(
            link, lambda job, link=link: run_twobw(options, job, without_extra(plans("2bw", link)), 2, hosts))
        table[str(link), "twobw flush"] = shaped(
            link, lambda job, link=link: run_twobw(options, job, plans("flush", link), 2, hosts))
        if options.tied:
            continue
        for schedule in TORCH:
            table[str(link), f"torch {torch_pipelining.SCHEDULES[schedule][0]}"] = shaped(
                link, lambda job, schedule=schedule: run_torch(
                    options, pipeline.torch_job(options, job), "torch_pipelining.py",
                    torch_split(pipeline.torch_job(options, job), schedule), hosts))
        table[str(link), "torch DDP"] = shaped(
            link, lambda job: run_torch(options, pipeline.torch_job(options, job), "torch_ddp.py", [], hosts))
    return table


def measure(options, chosen, job, plans):
    """{key: results, one a round: figures or a Failed}. One that failed twice at first is not run again."""
    results = {key: [] for key in chosen}
    for number in range(options.rounds):
        plans.renew()
        for key in list(chosen)[:: 1 if number % 2 == 0 else -1]:
            so_far = results[key]
            if len(so_far) >= 2 and all(isinstance(result, pipeline.Failed) for result in so_far):
                so_far.append(so_far[-1])
                continue
            try:
                so_far.append(chosen[key](job))
                outcome = f"{so_far[-1]['tokens_per_s']:.1f} tokens/s"
            except pipeline.Failed as failure:
                so_far.append(failure)
                outcome = str(failure)
            print(f"round {number + 1} of {options.rounds}: {', '.join(key)}: {outcome}", file=sys.stderr, flush=True)
    return results


def print_tables(results):
    """One for every link; ratios are formed within a round."""
    def rates(key):
        return pipeline.rates(results.get(key, []))

    threads = {schedule: rates(("none", f"twobw {schedule}, one process")) for schedule in ("2bw", "flush")}
    for link in dict.fromkeys(link for link, _ in results):
        print("\n" + ("without a link: one process, and two over the loopback" if link == "none" else
                      f"two hosts, links of {link}"))
        print(f"{'':38}{'tokens/s':>10}  {'min..max':>16}  {'of 2 threads':>12}  {'2bw is':>7}  e  of forecast")
        best = rates((link, "twobw 2bw, one process" if link == "none" else "twobw 2bw, planner's e"))
        for key in (key for key in results if key[0] == link):
            known = [rate for rate in rates(key) if rate is not None]
            if not known:
                print(f"{key[1]:38}{results[key][-1]}")
                continue
            schedule = "flush" if "flush" in key[1] else "2bw"
            of_threads = pipeline.median_ratio(rates(key), threads[schedule])
            ratio = pipeline.median_ratio(best, rates(key))
            extra = next((result["extra"] for result in results[key] if isinstance(result, dict) and "extra" in result),
                         "")
            forecasts = [result.get("forecast") if isinstance(result, dict) else None for result in results[key]]
            of_forecast = pipeline.median_ratio(rates(key), forecasts)
            print(f"{key[1]:38}{statistics.median(known):>10.1f}  {min(known):>7.1f}..{max(known):<7.1f}  "
                  f"{'-' if of_threads is None else format(of_threads, '.1%'):>12}  "
                  f"{'-' if ratio is None else format(ratio, '.2f') + 'x':>7}  {extra!s:1}  "
                  f"{'' if of_forecast is None else format(of_forecast, '.1%'):>11}".rstrip())
    print("\nof 2 threads: of the same schedule of twobw in one process without a network (torch rows: of 2bw)\n"
          "of forecast: of the planner's, from layers measured in the same round")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = jobs.Job()
    parser.add_argument("--links", type=lambda text: [Link.parse(word) for word in text.split(",")],
                        default=[Link("1gbit", "1ms"), Link("10gbit", "100us")], metavar="R/D,R/D",
                        help="rate of the links and delay from host to host, one way; a table for each")
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--microbatch", type=int, default=default.microbatch, help="sequences a microbatch")
    for name in ("layers", "width", "heads", "vocab", "context"):
        parser.add_argument(f"--{name}", type=int, default=getattr(default, name))
    parser.add_argument("--tied", action="store_true",
                        help="tie the weights of embedding and head; without the rows of torch, whose weights are not, "
                             "and with one of twobw whose first stage does not step late")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=default.updates, help="timed updates a run")
    parser.add_argument("--warmup", type=int, default=default.warmup, help="updates before the clock starts")
    parser.add_argument("--only", help="words of the contenders to run, separated by commas: 2bw,DDP")
    parser.add_argument("--json", type=pathlib.Path, help="also write everything to this file")
    parser.add_argument("--twobw", type=pathlib.Path, default=ROOT / "build" / "twobw")
    parser.add_argument("--timeout", type=float, default=600, help="seconds a single run may take")
    return parser.parse_args(arguments)


def links_here(links, hosts):
    """The links, without a delay where the kernel has none."""
    try:
        for link in links:
            hosts.shape(link.rate, link.delay)
        return links
    except namespaces.Unavailable as reason:
        print(reason, file=sys.stderr)
        return [Link(link.rate) for link in links]


def main():
    options = parse(sys.argv[1:])
    options.twobw = options.twobw.resolve()
    reason = namespaces.available()
    if reason:
        sys.exit(f"no hosts here: {reason}")
    fields = {field.name for field in dataclasses.fields(jobs.Job)} & set(vars(options))
    job = jobs.Job(**{name: getattr(options, name) for name in fields})
    options.times = pipeline.LayerTimes(job, options.timeout)
    about = {"command": shlex.join(["python", "benchmarks/network.py", *sys.argv[1:]]),
             "date": datetime.datetime.now().astimezone().isoformat(timespec="minutes"),
             "machine": pipeline.describe_machine(), "versions": pipeline.describe_versions(options.twobw)}
    with tempfile.TemporaryDirectory() as folder, namespaces.Hosts(2) as hosts:
        options.links = links_here(options.links, hosts)
        plans = Plans(options, job, pathlib.Path(folder))
        table = contenders(options, plans, hosts)
        wanted = options.only.split(",") if options.only else [""]
        chosen = {key: run for key, run in table.items() if any(word in " ".join(key) for word in wanted)}
        if not chosen:
            sys.exit(f"--only {options.only}: none of " + "; ".join(" ".join(key) for key in table))
        results = measure(options, chosen, job, plans)
    print(f"command   {about['command']}\ndate      {about['date']}\nmachine   {about['machine']}")
    print("versions  " + ", ".join(f"{name} {version}" for name, version in about["versions"].items()))
    print(f"model     GPT, {job.layers} blocks of width {job.width}, {job.heads} heads, vocabulary {job.vocab}, "
          f"{'tied' if options.tied else 'untied'}; fp32, AdamW, gradients clipped\n"
          f"runs      2 workers, m = {job.microbatches} microbatches of {job.microbatch} x {job.context} tokens, "
          f"{options.rounds} rounds, {job.warmup} updates of warm-up\n"
          f"messages  {job.microbatch * job.context * job.width * 4 / 2**10:.0f} KiB, one each way a microbatch")
    print_tables(results)
    if options.json:
        shown = {" | ".join(key): [str(result) if isinstance(result, pipeline.Failed) else result for result in found]
                 for key, found in results.items()}
        everything = {"about": about, "job": dataclasses.asdict(job), "results": shown}
        options.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
