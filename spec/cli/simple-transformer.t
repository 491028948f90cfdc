# The README's second example, as its version prints it.
$ ett simple-transformer --as readme --chip A100_40GB --n_layers 120 --d_model 12288 --batch_size 30720 --microbatch_size 48 --n_experts 16 --n_routed_experts 2 --pp 15 --pipeline_interleaving 8 --tp 8 --dp 12
Model Shape: 120 x (12288 x 61440) (top 2 of 16 routing)
...
TOTAL RUN TIME
 101.8 days

# The corrected model is the default: resources of every phase, and memory.
$ ett simple-transformer --n_layers 96 --d_model 12288 --pp 8 --tp 8 --dp 4 --microbatch_size 4 --network_bandwidth 12.5e9
Model Shape: 96 x (12288 x 61440) (top 1 of 1 routing)
...
steady state         ...  network
...
usable           ...  fits
...
 FLOP per expert:  2.52e+24

$ ett simple-transformer --n_layers 10 --d_model 512 --pp 4 --tp 3
ett: simple-transformer: 2 limits are violated:
  n_layers = 10 must be divisible by pp x pipeline_interleaving = 4; nearest passing: 2 or 5
  d_internal_ratio x d_model = 2560 must be divisible by tp = 3; nearest passing: 2 or 4
?1

$ ett simple-transformer --n_layers 4 --d_model 1024 --d_internal_ratio 0; ett simple-transformer --n_layers 1 --d_model 8
ett: simple-transformer: d_internal_ratio x d_model must be at least 1, got 0
ett: simple-transformer: the run has no batch: 20 tokens for each of 640 parameters are fewer than a batch of 4194304; give --dataset_size
?1

$ ett simple-transformer --n_layers 10 --d_model 512 --chip B200
ett: simple-transformer: option '--chip_type' must be one of H100, A100_40GB, H100_x64_pod, RTX4090, got 'B200'...
?2

$ ett simple-transformer --n_layers 96 --d_model 12288 --pp 8 --tp 8 --dp 4 --microbatch_size 4 --network_bandwidth 12.5e9 --sensitivities --csv --table sensitivities
name,factor,run_time_change,utilization_change
chip_flops,1.1000000000000001,0,-0.0909...
...
batch_size,2,...
dp,2,...

$ ett simple-transformer --n_layers 4 --d_model 1024 --chip_type H100 --cluster dgx_a100
ett: simple-transformer: give --chip_type or --cluster, not both
?2

# --csv holds what --json holds; --table names one of its tables.
$ W='--n_layers 4 --d_model 1024'; ett simple-transformer $W --csv --table memory; ett simple-transformer $W --csv | grep -c '^phases.full.seconds,'; ett simple-transformer $W --csv --table zz; ett simple-transformer $W --table memory
name,bytes
activations,...
gradients,...
optimizer,...
weights,...
1
ett: --table: no table 'zz'; there are values, memory
ett: simple-transformer: --table needs --csv
?2

$ W='--num_layers 4 --d_model 1024 --dataset_size 1e9'; ett transformer $W --csv | grep -E '^(flop.total|parameters),'; ett transformer $W --csv --entries --table entries | head -1; ett transformer $W --csv --table entries
flop.total,...
parameters,...
axis,dimension,flop_backward,flop_forward,label,...
ett: --table: no table 'entries'; there are values
?2

# A cluster of the user's own folder.
$ mkdir -p here/clusters; sed 's/name = "dgx_h100"/name = "own"/' "$ETT_ROOT/clusters/dgx_h100.lua" > here/clusters/own.lua; cd here; ett simple-transformer --n_layers 8 --d_model 1024 --cluster own; ett simple-transformer --n_layers 8 --d_model 1024 --cluster own --path . | head -1
ett: unknown cluster 'own'; `--path .` finds clusters/own.lua
Model Shape: ...

$ mkdir clusters; sed 's/name = "dgx_h100"/name = "own"/' "$ETT_ROOT/clusters/dgx_h100.lua" > clusters/own.lua; ett transformer --dataset_size 1e9 --num_layers 8 --d_model 1024 --cluster own --path . | head -1
N: 8.493e+07 ...
