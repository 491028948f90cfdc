# Metrics of recorded runs. trace_run holds one rank: a step of 1000 us, compute 500 us, an
# all-reduce of 400 us, 200 us of which is under the compute.
$ ett trace
ett: trace: give the folder or file of a trace: ett trace DIR
?2

$ ett trace nowhere
ett: cannot read 'nowhere': no such file or directory
?1

$ mkdir empty && ett trace empty
ett: ...empty...
?1

$ ett trace --list-metrics
...
coll_call_num                      number of collective calls, in total, per rank and by kind
...
wall_time_s                        time from the first start to the last end of the device rows

$ ett trace $SPEC/trace_run nonsense_metric
ett: unknown metric 'nonsense_metric'; `ett list metrics` names them all
?2

$ ett trace $SPEC/trace_run iter_tiem
ett: unknown metric 'iter_tiem'; did you mean 'iter_time'?
?2

$ ett trace x --window 5
ett: trace: option '--window' must be FROM:TO in milliseconds from the trace's start, FROM < TO, got '5'
?2

$ ett trace x --profile-mode vtune
ett: trace: option '--profile-mode' must be one of auto, torch, nsys, tpu, got 'vtune'
?2

$ cd $SPEC && ett trace trace_run comm_comp_overlap --json
{
  "comm_time_ms": 0.4,
  "comp_time_ms": 0.5,
  "num_comm_kernels": 1,
  "num_comp_kernels": 1,
  "overlap_ratio_of_comm": 0.5,
  "overlap_ratio_of_comp": 0.4,
  "overlap_time_ms": 0.2,
  "ranks": {
    "0": {
      "comm_time_ms": 0.4,
      "comp_time_ms": 0.5,
      "exposed_comm_time_ms": 0.2,
      "overlap_ratio_of_comm": 0.5,
      "overlap_ratio_of_comp": 0.4,
      "overlap_time_ms": 0.2
    }
  }
}

$ cd $SPEC && ett trace trace_run --metric iter_time | tail -n +3
iter_time: mean, minimum, maximum and standard deviation of the iteration time
  avg_iter_time_ms  1 ms
  max_iter_time_ms  1 ms
  min_iter_time_ms  1 ms
  std_iter_time_ms  0 ms
  num_iterations    1
  iter_times_ms: 1
  steps: 3

$ cd $SPEC && ett trace trace_run --metric straggler_lag
ett: trace: straggler_lag: needs at least two ranks; the trace has one device lane (0)
?1

# Options that no requested metric reads are refused.
$ cd $SPEC && for o in '--samples x' '--n-chips 4' '--collective all_gathr' '--top 3' '--peak-flops 1e15'; do ett trace trace_run iter_time $o; done; ett trace trace_run --top 3 | tail -1; ett trace trace_run kernel_breakdown iter_time --top 1 | grep -c '1 '
ett: trace: --samples needs --against
ett: trace: --n-chips has no effect on iter_time
ett: trace: --collective has no effect on iter_time
ett: trace: --top has no effect on iter_time
ett: trace: --peak-flops has no effect on iter_time
ett: trace: --top has no effect on device_time, temporal_breakdown, comm_comp_overlap, coll_call_num
...

$ cd $SPEC && ett trace trace_run --metric wall_time_s --csv --table zz
ett: trace: --table needs --list-metrics, --diff, --against, --read-plan or --what-if: the CSV of metrics is one table
?2

$ cd $SPEC && ett trace trace_run --metric wall_time_s --csv
trace,metric,field,value
trace_run,wall_time_s,over_devices,mean
trace_run,wall_time_s,per_device.0,0.0007
trace_run,wall_time_s,wall_time_s,0.0007

$ cd $SPEC && ett trace trace_run wall_time_s --window 0:0.25 --csv | tail -n 1
trace_run,wall_time_s,wall_time_s,0.00025

$ cd $SPEC && ett trace trace_run wall_time_s --step 4
ett: ...no step 4; the trace has step 3
?1

# Several folders: one row for each; a folder that cannot be read is named and the exit status says so.
$ cd $SPEC && ett trace --all trace_run trace_run --csv | cut -d, -f1,2 | head -3
trace,error
trace_run,
trace_run,

$ cd $SPEC && ett trace trace_run missing/ --metric iter_time --quiet
trace  ...
trace_run ...
missing/ ...cannot read 'missing/'...
?1

# A faulty file of kernel names fails each trace, not the first alone.
$ mkdir -p p/lua/ett/trace/communication; echo 'return { patterns = 1 }' > p/lua/ett/trace/communication/bad.lua; ETT_PATH=$PWD/p ett trace --all $SPEC/trace_run $SPEC/trace_run comm_comp_overlap --csv --quiet | grep -c "bad.lua: field 'patterns' must be a list"
2

$ cd $SPEC && ett trace trace_run trace_run wall_time_s; ett trace trace_run trace_run collective_list --quiet
trace      wall_time_s
trace_run       0.0007
trace_run       0.0007
trace
trace_run  needs at least two ranks...
trace_run  needs at least two ranks...
?1

$ mkdir ranks && for r in 0 1; do sed "s/{\"rank\":0,\"world_size\":1/{\"rank\":$r,\"world_size\":2/" $SPEC/trace_run/rank0.json > ranks/$r.json; done && ett trace ranks/*.json iter_time
ett: trace: 2 files of different ranks, each read as a run of its own; to read them as one run, give the folder 'ranks'
trace ... avg_iter_time_ms
ranks/0.json ... 1
ranks/1.json ... 1

# A metric is one file in a folder of ETT_PATH; so is a communication library.
$ mkdir -p mine/lua/ett/metrics mine/lua/ett/trace/communication && cat > mine/lua/ett/metrics/longest_gap.lua <<'EOF'
> return { name = "longest_gap", summary = "longest time a device did nothing", needs = "device rows",
>   definition = "Longest gap between busy intervals of a device, over all devices.", units = { longest_gap_us = "us" },
>   compute = function(view)
>     local longest = 0
>     for _, lane in ipairs(view:lanes()) do
>       for _, from, to in lane:busy():gaps():iter() do longest = math.max(longest, to - from) end
>     end
>     return { longest_gap_us = view:us(longest), comm = #view:lanes()[1]:rows("comm") }
>   end }
> EOF
> echo 'return { name = "mine", patterns = { "^gemm" } }' > mine/lua/ett/trace/communication/mine.lua
> ETT_PATH=$PWD/mine ett trace $SPEC/trace_run longest_gap --json
{
  "comm": 2,
  "longest_gap_us": 0.0
}

$ ett trace $SPEC/trace_run --html new/page.html && grep -c '"title":' new/page.html
wrote new/page.html
1

$ cd $SPEC && ett trace --diff trace_run trace_run | head -2
first  trace_run: 1 file (kineto), 3 events, ... MB
second trace_run: 1 file (kineto), 3 events, ... MB

$ mkdir cut && head -c -40 $SPEC/trace_run/rank0.json > cut/rank0.json && ett trace --diff $SPEC/trace_run cut | grep -c ends
ett: trace: cut/rank0.json at byte ...: the file ends inside a value; the data before it was read
0
?1

# Samples of operators by the targets of a sampling configuration.
$ ett samples
ett: samples: expected from-trace or merge; `ett samples --help` explains both
?2

$ ett samples from-trase x y
ett: samples: expected from-trace or merge; did you mean 'from-trace'?; `ett samples --help` explains both
?2

$ printf '%s\n' '{ "kernel_name": "linear1", "columns_name": ["b", "dur(us)"], "targets": [["aten::linear"]] }' > c.yml && ett samples from-trace $SPEC/trace_run c.yml --shape 4
ett: ...linear1: no occurrence of target 1: the trace has no 'aten::linear'
?1

$ for m in $(ett trace --list-metrics | cut -d' ' -f1); do ett trace $SPEC/trace_run $m --quiet 2>&1; done | grep -c -E 'attempt to|\.lua:'
0
?1

$ cd $SPEC && ett trace trace_run iter_time --window 5:6
ett: window 5:6 ms is outside the trace of 1 ms
?1

$ mkdir run && cp $SPEC/trace_run/rank0.json run && cat > longest_gap.lua <<'X'
> return { name = "longest_gap", summary = "longest time a device did nothing", needs = "device rows",
>   definition = "longest gap of busy time", units = { longest_gap_us = "us" },
>   compute = function(view)
>     local longest = 0
>     for _, lane in ipairs(view:lanes()) do
>       for _, from, to in lane:busy():gaps(lane:span()):iter() do longest = math.max(longest, to - from) end
>     end
>     return { longest_gap_us = view:us(longest) }
>   end }
> X
> ett trace run longest_gap --path . --step 3 --csv | tail -n 1
> ett trace run --metric ./longest_gap.lua --step 3 --csv | tail -n 1
run,longest_gap,longest_gap_us,200.0
run,longest_gap,longest_gap_us,200.0

$ mkdir pp && for r in 0 1; do cat > pp/pp_rank_$r.json <<'X'
> {"1": {"total": 100.0, "fwd_start": [0.0], "fwd_end": [30.0], "bwd_start": [40.0], "bwd_end": [80.0]},
>  "2": {"total": 100.0, "fwd_start": [0.0], "fwd_end": [35.0], "bwd_start": [40.0], "bwd_end": [80.0]}}
> X
> done; ett trace pp | head -n 6; ett trace pp pipeline_bubble --window 0:5
pp: per-micro-batch timings
.
pipeline_bubble: share of the step that a pipeline stage waits because of the schedule, and how it was found
  bubble_ratio                      0.25 share
  bubble_time_ms                    25 ms
  method                            micro-batch timings
ett: trace: pipeline_bubble: timings are by iteration, not by time: give --step instead of --window
?1

# Against an estimate, and with changes. This trace has no shapes.

$ ett trace $SPEC/trace_run --against auto
ett: the trace does not show the model's layers=, hidden=, heads=, vocab=; give them as NAME=VALUE, or a public model or a config.json as model=NAME
?1

$ ett trace $SPEC/trace_run --against nothing
ett: trace: --against takes PLAN.lua, NAME=VALUE or auto, got 'nothing'
?2

$ ett trace $SPEC/trace_run tp=2
ett: trace: 'tp=2' is a field of a plan; it needs --against
?2

$ ett trace $SPEC/trace_run --what-if faster
ett: what-if: cannot read 'faster'; forms: 'attention*0.5', 'link.intra*2', 'host*0.5', 'rank 0 not late', 'dp=8->64'
?2

$ ett samples from-trace
ett: samples from-trace: needs DIR
?2

A trace of ett's own step shows no layers: whether ZeRO gathers weights for each of them is a guess.
$ ett predict --model llama3-8b --cluster dgx_h100 seq=2048 dp=8 zero=1 global_batch=16 --chrome-trace new.step.json --quiet >new.s && ett trace new.step.json --read-plan | grep zero
zero   1      guess     gradients are scattered, weights gathered
