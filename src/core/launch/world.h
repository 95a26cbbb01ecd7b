// The rank of this process, from the environment of its launcher: torchrun, Open MPI's mpirun, another mpirun
// with PMI, or srun. Without one the process is alone.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace twobw::launch {

// The value of a variable; null if it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// The environment of this process.
Environment process_environment();

// Ports of runs whose launcher sets none, below the ephemeral ports of Linux (32768 and up).
inline constexpr int kFirstDerivedPort = 20000;
inline constexpr int kDerivedPorts = 10000;

struct World {
  std::string launcher = "alone";  // alone, torchrun, mpirun, pmi, srun
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the processes of this host
  int local_size = 1;
  std::string master_address = "127.0.0.1";  // the host of rank 0
  int master_port = 0;                       // 0: alone
  // Identifies this run and attempt (a restart is another); part of every key and of the token.
  std::string job = "alone";
  bool agent_store = false;  // torchrun's agent has a store at the address and port above
  int restart = 0;

  bool on_one_host() const { return local_size == size; }
};

// The first of these that is set decides: RANK or WORLD_SIZE (torchrun, or set by the user),
// OMPI_COMM_WORLD_*, PMI_*, SLURM_* inside a step of srun. MASTER_ADDR and MASTER_PORT override the
// launcher's address; the default port derives from the launcher's job id. Throws InputError that names a
// variable that is missing, is not a number or contradicts another.
World read_world(const Environment& environment);

// False if a terminal at the output cannot be the user's: Open MPI's mpirun gives process 0 a
// pseudo-terminal, wherever its own output goes.
bool terminal_is_users(const Environment& environment);

// True if OMP_NUM_THREADS is torchrun's default of 1, which it sets if the user has not set it. (A user's 1
// under torchrun looks the same.)
bool omp_threads_are_torchruns(const Environment& environment);

}  // namespace twobw::launch
