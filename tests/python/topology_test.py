"""The links between processes: `twobw topology` under a launcher, `plan: auto` by what it measures, and new plans for
fewer processes."""
import re
import unittest

import hosts as namespaces
from hosts_test import NO_HOSTS, HostsCase
from processes import TORCHRUN, ProcessesTest, free_port, rank_environment
from support import TINY, Run, program, slow, twobw

BITS = {"Mbit/s": 1e6, "Gbit/s": 1e9}


def bandwidths(text, place):
    """Of the links of a place, as the file's remarks have them: [(one way, both ways)], in bits a second."""
    found = re.findall(rf"^#   {place}, processes \d+ and \d+: .*?one way alone (\S+) (\S+), both ways (\S+) (\S+) "
                       "each$", text, re.MULTILINE)
    return [(float(one) * BITS[one_unit], float(both) * BITS[both_unit]) for one, one_unit, both, both_unit in found]


class TopologyTest(ProcessesTest):
    @slow
    def test_two_processes_of_one_host(self):
        cluster = self.folder / "cluster.yaml"
        job = self.run_launched([*TORCHRUN, "--standalone", "--nproc-per-node", "2"], "topology", "--output", cluster)
        self.assertRegex(job.output(), r"(?m)^link +processes +latency +one way +both ways, each$")
        self.assertRegex(job.output(), rf"(?m)^\d+ devices? on 1 host written to {re.escape(str(cluster))}$")
        text = cluster.read_text()
        self.assertTrue(text.startswith("# Written by `twobw topology` in 2 processes on 1 host.\n"), text)
        (one, both), = bandwidths(text, r"inside \S+")
        self.assertGreater(min(one, both), 1e8)  # slower than this no loopback is
        planned = twobw("plan", "--cluster", cluster, "model.layers=4", "--explain")
        self.assertEqual((planned.returncode, planned.stderr), (0, ""), planned.stdout)

    def test_printed(self):
        """Ranks started one by one: only the first prints, and its output is the file."""
        job = self.run_ranks(3, "topology")
        (self.folder / "c.yaml").write_text(job.output())
        planned = twobw("plan", "--cluster", self.folder / "c.yaml", "model.layers=4")
        self.assertEqual((planned.returncode, planned.stderr), (0, ""), planned.stdout)

    def test_wrong_input(self):
        """A folder that is not there: all processes end as for wrong input, and the first says it."""
        job = self.start_ranks(2, "topology", "--output", "nowhere/c.yaml")
        self.assertEqual(job.wait(60), [2, 2], job.everything())
        self.assertRegex(job.errors(0), r"\Atwobw: --output is 'nowhere/c\.yaml', which [^\n]+\n\Z")
        job.assert_no_orphans()


@unittest.skipIf(NO_HOSTS, NO_HOSTS)
class HostsTopologyTest(HostsCase):
    def test_the_link_that_was_set(self):
        no_delay = namespaces.available(delay=True)
        hosts, job, port = self.make_hosts(rate="100mbit", delay=None if no_delay else "5ms"), self.job(), free_port()
        cluster = self.folder / "cluster.yaml"
        for rank in range(2):
            job.start(hosts.command(rank, program("TWOBW_BINARY", "twobw"), "topology", "--output", cluster),
                      rank_environment(rank, 2, port, hosts.address(0), local_size=1))
        self.assertEqual(job.wait(60), [0, 0], job.everything())
        text = cluster.read_text()
        (one, both), = bandwidths(text, "host0 - host1")
        for measured in (one, both):
            self.assertAlmostEqual(measured / 100e6, 1, delta=0.25, msg=text)
        (latency,) = re.findall(r"(?m)^network: \{.*latency: ([\d.]+[mu]s), shared: true\}$", text)
        if not no_delay:
            self.assertGreaterEqual(namespaces.seconds(latency), 0.005)
            self.assertLess(namespaces.seconds(latency), 0.05)
        planned = twobw("plan", "--cluster", cluster, "model.layers=4")
        self.assertEqual((planned.returncode, planned.stderr), (0, ""), planned.stdout)


class PlanTest(ProcessesTest):
    def settings(self, **changes):
        return {**TINY, "run_dir": self.folder / "run", "checkpoint.every_updates": 3, "train.updates": 12, **changes}

    def test_by_the_links_that_were_measured(self):
        output = self.run_ranks(2, "train", settings=self.settings(plan="auto")).output()
        self.assertRegex(output, r"measured between processes of a host: \S+ [MG]bit/s each way while both are full, ")
        self.assertRegex(output, r"planned for 2 processes: .*; forecast \S+ tokens/s")
        self.assertRegex(output, r"(?m)^forecast \S+ tokens/s, measured \S+: [+-]")
        self.assertGreater(Run(self.folder / "run").summary["forecast"]["tokens_per_s"]["forecast"], 0)

    def test_kept_where_the_run_goes_on(self):
        """As after a restart, by the same command: another measurement would give another plan, and other bits."""
        settings = self.settings(plan="auto", resume="auto", **{"pipeline.microbatches": 8})
        self.assertRegex(self.run_ranks(2, "train", settings=settings).output(), "planned for 2 processes: ")
        config = self.folder / "run" / "config.yaml"
        first = re.search(r"(?s)pipeline:.*?\n\w", config.read_text()).group()
        output = self.run_ranks(2, "train", settings={**settings, "train.updates": 18}).output()
        self.assertIn("the plan of the run is kept: it was made for the same configuration and devices\n", output)
        self.assertNotIn("planned", output)
        self.assertEqual(re.search(r"(?s)pipeline:.*?\n\w", config.read_text()).group(), first)
        self.assertEqual(Run(self.folder / "run").lines[-1]["checkpoint"], 18)

    @slow
    def test_again_for_fewer_processes(self):
        """Three, then two, which resume from the same checkpoint without the devices of the first run."""
        self.run_ranks(3, "train", settings=self.settings(plan="auto"))
        again = {"plan": "auto", "resume": self.folder / "run", "train.updates": 18}
        output = self.run_ranks(2, "train", settings=again).output()
        self.assertRegex(output, r"resumed after update 12 from ")
        self.assertRegex(output, r"planned again for 2 processes: \d stages? x \d replicas?, where the checkpoint was "
                                 r"saved with (3 x 1|1 x 3)")
        losses = [line["loss"] for line in Run(self.folder / "run").lines if "grad_norm" in line]
        self.assertEqual(len(losses), 18)
