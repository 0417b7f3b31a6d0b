# The steps of a job of Slurm; serve-*.sbatch reads this file after it has set: folder, runtime, root, again, servers, gpus,
# ranks, images, nodes, least_seconds.
#
#   check     everything that this node lacks is told at once, and nothing is started
#   prepare   each server's release, a key and an empty cache lie in the job's own directory
#   serve     containers start; once every model has answered, balancers hear "ready" and send requests
#   leave     on a signal: balancers hear "drain", requests under way end, containers stop, the job ends
#
# Signals to the batch shell: USR1 (Slurm, before the time limit) leaves and queues the job again, where again=yes;
# USR2 (`scancel --batch --signal=USR2 JOB`) leaves and ends the job.
set -euo pipefail
work= # the job's own directory: no name that another user of the node could take first
LONG_SECONDS=600 # a job that served for less than this is not queued again after a failure

# Nothing of the submitter's shell reaches a container, a token least of all.
for variable in $(compgen -e); do
  case $variable in
    SLURM_JWT) unset "$variable" ;;
    PATH | HOME | USER | LOGNAME | LANG | SLURM* | CUDA_VISIBLE_DEVICES) ;;
    *) unset "$variable" ;;
  esac
done

say() { echo "$(date -u +%FT%TZ) $*"; }

host=(python3 -B "$folder/programs/host")

problems=0
# refuse PROBLEM SEEN WANTED TRY
refuse() {
  problems=$((problems + 1))
  printf '%s\n  where   node %s, job %s\n  seen    %s\n  wanted  %s\n  try     %s\n  state   nothing was started on this node\n' \
    "$1" "$SLURMD_NODENAME" "$SLURM_JOB_ID" "$(tr -s '[:space:]' ' ' <<<"$2" | sed 's/^ //; s/ $//')" "$3" "$4" >&2
}

# Sets name, addresses and ports: the host that this node is in the plan.
find_host() {
  local row node
  name=
  for row in "${nodes[@]}"; do
    read -r node name addresses ports <<<"$row"
    [ "$node" = "$SLURMD_NODENAME" ] || [ "$name" = "$SLURMD_NODENAME" ] || { name= && continue; }
    return 0
  done
}

check() {
  find_host
  if [ -z "$name" ]; then
    refuse "this node is no host of this job" "$SLURMD_NODENAME" "$(printf '%s, ' "${nodes[@]%% *}" | sed 's/, $//')" \
      "sbatch --exclude=$SLURMD_NODENAME, or --partition with these nodes alone"
    return
  fi
  [ "$(id -u)" -ne 0 ] || refuse "a container would run as root" "root" "an ordinary user" "sbatch as that user"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    refuse "python3 is too old, or missing" "$(python3 --version 2>&1 || true)" "Python 3.10" "install it on this node"
  [ "${SLURM_GPUS_ON_NODE:-0}" -eq "$gpus" ] ||
    refuse "the job has other GPUs than the plan" "${SLURM_GPUS_ON_NODE:-0}" "$gpus" "sbatch --gres=gpu:$gpus"
  check_time
  if [ "$runtime" = docker ]; then check_docker; else check_pyxis; fi
  check_listening
}

check_time() {
  local end left
  end=$(scontrol show job "$SLURM_JOB_ID" | grep -o 'EndTime=[^ ]*' | cut -d= -f2)
  left=$(($(date -d "$end" +%s 2>/dev/null || echo 9999999999) - $(date +%s)))
  [ "$left" -gt "$least_seconds" ] || [ "$looks_only" = yes ] ||
    refuse "the time limit leaves no time to serve" "$left s" "more than $least_seconds s for start, drain and stop" \
      "sbatch --time=1-00:00:00"
}

check_docker() {
  local image seen container job
  if ! seen=$(docker version --format '{{.Server.Version}}' 2>&1); then
    refuse "$(id -un) cannot use Docker on this node" "$seen" "a Docker that this user may use" \
      "ask an administrator for the group docker, or export with --runtime pyxis"
    return
  fi
  for image in "${images[@]}"; do
    docker image inspect "$image" >/dev/null 2>&1 || seen=$(docker pull --quiet "$image" 2>&1) ||
      refuse "the image is not on this node and could not be pulled" "$seen" "$image" "docker login, then sbatch again"
  done
  # Some virtual machines let nobody raise limits; Docker's own apply there.
  limits="--ulimit memlock=-1 --ulimit nofile=1048576"
  # shellcheck disable=SC2086
  docker run --rm --network none $limits --entrypoint true "${images[0]}" >/dev/null 2>&1 || limits=
  # A container outlives a job whose node was lost. The node is this job's alone, so nobody else's is running.
  for container in $(docker ps --all --quiet --filter label=enginehouse.job); do
    job=$(docker inspect --format '{{index .Config.Labels "enginehouse.job"}}' "$container")
    if [ "$job" != "$SLURM_JOB_ID" ] && [ -n "$(squeue -h -t R -w "$SLURMD_NODENAME" -j "$job" 2>/dev/null)" ]; then
      refuse "another job serves on this node" "job $job" "a node for each job" "sbatch with the file's own --exclusive"
    else
      say "removing a container that job $job left"
      docker rm --force "$container" >/dev/null
    fi
  done
}

check_pyxis() {
  srun --help | grep -q -e --container-image ||
    refuse "srun has no containers" "no --container-image in srun --help" "pyxis with enroot" "export with --runtime docker"
  [ "$ranks" -eq 1 ] || srun --mpi=list 2>&1 | grep -q pmix ||
    refuse "Slurm has no PMIx" "$(srun --mpi=list 2>&1 | tr '\n' ' ')" "pmix in srun --mpi=list" \
      "ask an administrator for Slurm's PMIx plugin"
}

check_listening() {
  local address port own
  own=$(hostname -I)
  for address in ${addresses//,/ }; do
    [ "$address" = - ] || grep -qwF -- "$address" <<<"$own" ||
      refuse "this node lacks the address of its host" "$own" "$address" "correct $name in the inventory, and export again"
  done
  for port in ${ports//,/ }; do
    [ -z "$(ss -Hltn "sport = :$port")" ] ||
      refuse "a port of the plan is taken" "$(ss -Hltn "sport = :$port" | head -n 1)" "nobody on port $port" \
        "stop what listens there; on a deployed host: systemctl disable --now 'triton@*' enginehouse-traffic"
  done
}

prepare() {
  local server seen
  work=$(mktemp -d "/tmp/enginehouse-$SLURM_JOB_ID.XXXXXXXX")
  trap 'rm -rf "$work"' EXIT
  export ENGINEHOUSE_ROOT=$work ENGINEHOUSE_RUNTIME=$work/run ENGINEHOUSE_SETTINGS=$folder/hosts/$name
  export LIMITS=${limits:-}
  export INVOCATION_ID=$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}
  mkdir "$work"/{run,servers,releases,tmp}
  ln -s "$root/weights" "$work/weights"
  for server in "${servers[@]}"; do
    seen=$(ENGINEHOUSE_SETTINGS=$folder/hosts/$name/$server "${host[@]}" pod prepare "$server" 2>&1) ||
      { refuse "$server is not staged" "$seen" "its weights below $root/weights" "sbatch stage.sbatch" && continue; }
    mkdir -m 0700 "$work/cache-$server"
    # The container's user is the job's, and needs a name.
    sed "s/:x:[1-9][0-9]*:[0-9]*:/:x:$(id -u):$(id -g):/" "$work/servers/$server/current/passwd" >"$work/passwd-$server"
  done
}

start() {
  local server
  if [ "$runtime" = docker ] && ! docker network inspect enginehouse-jobs >/dev/null 2>&1; then
    # Answers go out, and nothing that begins in a container finds its way back.
    docker network create --driver bridge --opt com.docker.network.bridge.enable_ip_masquerade=false \
      --opt com.docker.network.bridge.enable_icc=false enginehouse-jobs >/dev/null
  fi
  containers=()
  for server in "${servers[@]}"; do
    bash "$folder/hosts/$name/$server/run" "$work" "$root" &
    containers+=($!)
  done
}

# any PID…: until one of them has ended, or a signal came.
any() {
  local pid
  while [ -z "$leaving" ]; do
    for pid in "$@"; do kill -0 "$pid" 2>/dev/null || return 0; done
    wait -n "$@" || true
  done
}

serve() {
  local agent=() proofs=() proof began server
  leaving='' watchers=()
  trap 'leaving=again' USR1
  trap 'leaving=end' USR2 TERM
  trap clean EXIT
  start
  if [ -e "$folder/hosts/$name/traffic.json" ]; then
    "${host[@]}" job serve &
    agent=($!)
  fi
  for server in "${servers[@]}"; do
    "${host[@]}" prove "$server" &
    proofs+=($!)
  done
  for proof in "${proofs[@]}"; do
    any "$proof" "${containers[@]}" "${agent[@]}"
    if [ -z "$leaving" ] && { kill -0 "$proof" 2>/dev/null || ! wait "$proof"; }; then
      say "$name did not come to serve; the reason is above" >&2
      exit 1
    fi
  done
  began=$SECONDS
  [ -n "$leaving" ] || say "$name serves ${servers[*]}"
  for server in "${servers[@]}"; do
    "${host[@]}" job watch "$server" &
    watchers+=($!)
  done
  any "${containers[@]}" "${agent[@]}" "${watchers[@]}"
  if [ -z "$leaving" ]; then
    leaving=failed
    say "a container ended, or a model was silent" >&2
  fi
  leave
  case $leaving in
    end) ;;
    again) [ "$again" = no ] || queue_again ;;
    failed)
      [ $((SECONDS - began)) -gt "$LONG_SECONDS" ] || exit 1
      queue_again
      ;;
  esac
}

leave() {
  local server drains=() stops=()
  trap '' USR1 USR2 TERM
  say "$name leaves: no new request comes, and those under way end"
  kill "${watchers[@]}" 2>/dev/null || true
  for server in "${servers[@]}"; do
    "${host[@]}" traffic drained "$server" &
    drains+=($!)
  done
  wait "${drains[@]}" || true
  for server in "${servers[@]}"; do
    if [ "$runtime" = docker ]; then docker stop "enginehouse-$server" >/dev/null 2>&1 & stops+=($!); fi
  done
  [ "$runtime" = docker ] || kill -TERM "${containers[@]}" 2>/dev/null || true
  wait "${stops[@]}" "${containers[@]}" || true
  say "$name has left"
}

queue_again() {
  say "job $SLURM_JOB_ID goes back to the queue"
  scontrol requeue "$SLURM_JOB_ID"
}

clean() {
  local left
  left=$(jobs -p)
  # shellcheck disable=SC2086
  [ -z "$left" ] || kill $left 2>/dev/null || true
  if [ "$runtime" = docker ]; then
    docker ps --all --quiet --filter "label=enginehouse.job=$SLURM_JOB_ID" | xargs -r docker rm --force >/dev/null 2>&1 || true
  fi
  rm -rf "$work"
}

looks_only=no
[ "${1:-}" != --check ] || looks_only=yes
check
[ "$problems" -gt 0 ] || prepare
if [ "$problems" -gt 0 ]; then
  echo "$problems problems on $SLURMD_NODENAME; nothing was started" >&2
  exit 1
fi
if [ "$looks_only" = yes ]; then
  say "$SLURMD_NODENAME has what $name needs"
else
  serve
fi
