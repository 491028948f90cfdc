# The README's first example of the public programs.
$ ett transformer --cluster_flop_rate 156e12 --num_experts 8 --batch 8192 --seq_len=8192 --dataset_size 13e12 --num_l 120 --d_model 15360 --p_pipe 15 --p_data 16 --p_exp 8 --p_tensor_int 8
N: 2.267e+12 (2.834e+11 effective)
D: 1.300e+13
b: 8192 (microbatch size must be in [16, 32, 64, 128] to be efficient)
P: 15360 = {DATA: 16, PIPE: 15, EXP: 8, SEQ: 1, TENSOR_EXT: 1, TENSOR_INT: 8}
...
Runtime:             118.8 days

$ ett transformer --dataset_size 3e11 --num_layers 96 --d_model 12288 --p_pipe 7 --p_tensor_int 5
ett: transformer: 7 limits are violated:
  LAYER = 96 must be divisible by PIPE = 7; nearest passing: 6 or 8
  D_FFN = 49152 must be divisible by TENSOR_INT = 5; nearest passing: 4 or 6
  ATTN_HEAD = 192 must be divisible by TENSOR_INT = 5; nearest passing: 4 or 6
  weights: elements a rank holds of W_k = 786432 must be divisible by DATA SEQ TENSOR_INT = 5; nearest passing: 4 or 6
...
?1

$ ett transformer --dataset_size 3e11
ett: transformer: missing --num_layers, --d_model; `ett transformer --help` lists the options
?2

# Limits of efficiency, each with the nearest values that keep it.
$ ett transformer --dataset_size 3e11 --num_layers 96 --d_model 12288 --batch_size 64 --p_pipe 32
ett: transformer: 2 limits are violated:
  batch_size / p_data (samples of one replica) = 64 must be at least 4 microbatches for each of p_pipe stages = 128; nearest passing: batch_size = 128 or p_pipe = 16
  least microbatch size with 1024 tokens a matmul = 1 must be at most greatest with 4 microbatches a stage = 0; nearest passing: batch_size = 128
?1

$ ett transformer --dataset_size 3e11 --num_layers 96 --d_model 12288 --batch_size 514 --p_data 2 --seq_len 512 --p_pipe 2
ett: transformer: no multiple of p_data = 2 from 4 to 64 divides batch_size = 514: no efficient microbatch size; nearest passing batch_size: 512 or 516
?1

$ ett transformer --dataset_size 3e11 --num_layers 96 --d_model 12288 --p_tensor_int 8 --cluster dgx_h100
...
phase             seconds      compute       memory      network  bound by
...
Runtime with traffic: ...
...

# Consequences of a violated rule are not listed.
$ ett transformer --dataset_size 3e11 --num_layers 96 --d_model 12288 --d_head 1000
ett: transformer: d_model = 12288 must be divisible by d_head = 1000; nearest passing d_head: 768 or 1024
?1

$ ett transformer --dataset_size 3e11 --num_layers 96 --d_model 12288 --seq_len 8192
ett: transformer: batch_size x seq_len / num_experts (tokens per expert per batch) = 16777216 must be at most gradient noise scale: 4096 x 2048 tokens = 8388608; nearest passing: batch_size = 1024 or seq_len = 4096
?1

$ ett transformer --dataset_size 3e11 --num_layers 96 --d_model 12288 --p_tensor_int 8 --p_pipe 8 --p_data 4 --no_multi --cluster dgx_h100 --sensitivities
...
MEMORY PER RANK (GB; 1f1b, microbatch of 1 samples a replica)
weights             5.436
gradients           5.436
optimizer           8.154
activations         9.764
total              28.790
device             84.980  fits
...
SENSITIVITIES            run time
network x 1.1 ...
memory x 1.1 ...
flops x 1.1 ...
batch_size x 2 ...
p_data x 2 ...

$ ett transformer --dataset_size 3e11 --num_layers 96 --d_model 12288 --sensitivities
ett: transformer: --sensitivities needs --cluster, whose links it varies
?2
