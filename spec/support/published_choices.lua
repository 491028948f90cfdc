--- The last section of ACCURACY.md: choices of mechanisms, priors and values of unstated fields.
--
-- Each correction in published.lua has an item here.
return [[
## Choices made after errors were seen

The errors of all rows were known when mechanisms, priors and values of unstated fields were chosen. So the errors above
are optimistic. Each item states a choice, its source and its effect. A choice without a source is from memory of the
software and was not checked against its code. The words "Error: A to B %" give the mean error before and after the
choice, when it was made. Later choices can have changed both.

### Rows: values that another source corrects

- fms-fsdp on H100: 464 GPUs and 3.2 Tbit/s a node, from the authors' later post (pytorch.org, "Maximizing Training
  Throughput Using PyTorch FSDP and Torch.compile", table 2). The README has 96 GPUs and 800 Gbit/s. Error: 13.5 to
  4.8 %.
- Megatron-Bridge, gpt-oss on H100 (25.11) and Llama 3 70B on GB300 (26.02.01): the plans of the recipes
  (scripts/performance/configs), not those of the printed table.
- MaxText 52B on TPU v4: the model has 52 billion parameters only with the older defaults of base.yml. The steps follow
  from its printed TFLOP/s.
- Eleven plans did not fit their device by ett's estimate. Then the two items above, the optimizer of NeMo 1 and the
  recomputation of gpt-oss were looked up. Error of the 18 steps that changed: 13.4 to 10.1 %.
- Zero bubble: the vocabulary is 32,000. The stated 51,200 contradicts the stated parameters, which imply 25,500 to
  33,500. With the rows as stated, the printed memory is 26 to 42 % above the estimates. The paper's profile (arXiv
  2401.10241, table 6) excludes 51,200 for 1.5B: two layers, this head and its loss would take a tenth longer than the
  step.
- Zero bubble: with 51,200 the errors are 6.3 % under zb_1p and 11.3 % under zb_2p, instead of 3.2 and 2.5. The authors'
  table of these rows and of 28.3B was seen during this search.
- vTrain inside a node: vocabulary of that simulator's model, 50,257 without padding. These steps are exact sums of
  parts, and the time of reducing gradients is the same for every micro-batch and tensor degree.
- vTrain: fused softmax, by the rows' note and that simulator's model; their field says "unfused". Full recomputation
  inside a node, by its configurations.
- MLPerf, Llama 3.1 8B on eight B300: two rows seem to have each other's precision. The row of fp8 (0.394 s) counts as
  nvfp4, because copies of its configuration differ in FP4. Another submitter's nvfp4 row takes 0.406 s; with fp8 its
  error was 43 %. The row of nvfp4 (0.551 s) is unchanged and 26 % too fast; another fp8 row takes 0.548 s.
- BLOOM: the network rate of NCCL's benchmark on that machine, an all-reduce of 4 GB over four nodes in 1.529 s
  (experiments/bandwidth/all_reduce_bench-a100-n4.txt). It used one of four cards in each direction: 5.07 GB/s of 12.5.
  That four cards reach four times as much is assumed. Error: 12.9 to 10.5 %. The row of tp 1 became worse: 12 instead
  of 6 % too slow. Factors were not fitted again.

### Rows: devices and layouts

- Devices without a bundled cluster use the most similar one, with links scaled by the datasheets' ratio. Line rates are
  multiplied by 0.85, or 0.96 from 400 Gbit/s on.
- GB200 and GB300: a domain has 64 GPUs if the number of GPUs is not a multiple of 72.
- Software without a stack has the most similar one: `torchtitan` for fms-fsdp, `fsdp_eager` for nanotron and torchtune.
  The interval is then wider (`compared`).
- Rows without a precision count as bf16. MLPerf's count as fp8, except on TPUs: all since 2024 that state it have 8
  bits or fewer. `mxfp8` means blocks of fp8 on Hopper.
- Degrees that a row leaves open follow from its numbers of GPUs and sequences. If micro-batches are open, too, they
  have one sequence. GPT-NeoX's A100 rows are estimated with Perlmutter's own samples.
- Experts spread over at most 8 ranks in Megatron. In NeMo Automodel they spread over all ranks, as in its benchmark
  configurations.
- Megatron's mixtures and rows with `overlap_tp` use sequence parallelism (arguments.py), and so does nanotron.
  Megatron-LM overlaps tensor-parallel communication only with sequence parallelism.
- If a row says that embedding and loss count as layers, the first and the last slice hold one layer less.
- nanotron divides products instead of layers, as its code does: 11 and 5 of 16 layers.
- Rows of zb_1p and zb_2p use these schedules with units ordered by their estimated times.
- States are sharded over groups where a row, or its script, says so: InternEvo, MaxText, and paxml inside a node.
  llm-foundry's ZeRO-2 is SHARD_GRAD_OP.
- MaxText's rows that drop tokens pad experts to a capacity factor of 1.25 (maxtext_trillium_model_configs.py). Other
  rows that drop tokens are estimated with balanced experts, which drop none.

### Rows: recomputation

- MaxText without a stated policy: full recomputation, its default `remat_policy`. `minimal`, `save_qkv_proj` and
  `save_dot_with_context_except_mlp` repeat what these policies do not store (its code). With full recomputation one row
  (H200) was 11 % too slow, and the error of ten rows of `save_qkv_proj` (H100) was 4.8 %, now 3.8.
- MaxText's `custom` policies on TPUs store and offload what the scripts of tpu-recipes state.
- fms-fsdp, and torchtitan by layer: selective checkpointing repeats every second layer. torchtitan by operator repeats
  the operators that its code does not store.
- paxml stores the outputs of products and repeats the rest; in fp8 it repeats all (google/paxml,
  scripts_gpu/configs.py).
- NeMo's launcher of 2023: selective recomputation, by its configuration of spring 2023. Without it the rows do not fit.
- Megatron-Bridge's gpt-oss on H100, B200 and GB200: norms and activations, by its recipes.
- NeMo Automodel's Qwen3-30B: full recomputation, by its benchmark configuration. With that configuration all three
  plans fit; before, none did. Error: 8.0 to 13.1 %, because the step with recomputation is 20 % too slow. It applies
  the router's weights to activations (components/moe/layers.py). So it does not repeat the all-to-all of outputs, and
  the step is now 15 % too slow. This was looked up after the error was seen.
- InternEvo repeats norms where it repeats no layer (modeling_internlm.py).
- LoRA rows that leave it open use full recomputation if they do not fit otherwise.
- PyTorch's recomputation omits a dense layer's last product, with the sum over its ranks and the residual addition
  (`early_stop`). XLA removes unused results, too. Whether the PyTorch releases of the rows do so is unknown.

### Rows: settings that a row leaves open

- Zero bubble: fp16, fused softmax, dropout and tied embeddings, by its software's first script and Megatron-LM's
  defaults. Megatron-DeepSpeed: Megatron-LM's dropout of 0.1.
- NeMo before 25.04 has the layers of that release's configurations (NeMo-Framework-Launcher). Some have biases,
  dropout, a fused softmax and fp32 gradients. Error of the launcher's rows of 2023: 26.7 to 10.0 %, and 2.6 % with
  their recomputation. Error of the documentation's rows of 24.07: 8.3 to 7.8 %.
- NeMo before 25.04 has Megatron-LM's native fused loss, because Transformer Engine has its own only from 2.1 on. Rows
  of the launcher of 2023 have the unfused loss, and sum the gradients of biases in a kernel of their own.
- NeMo 24.03 to 24.07, documentation: FlashAttention 2. The launcher of 24.03.01 turns cuDNN's attention off;
  NeMo-Framework-Launcher#422 turned it on again in August 2024. Error: 7.4 to 3.4 % for nine rows of pretraining, 9.6
  to 10.1 for three fine-tuned, 2.1 to 3.6 for three of LoRA.
- NeMo and Megatron-Bridge overlap gradients and parameters. NeMo also reduces in bf16, overlaps tensor-parallel
  communication (not in nvfp4) and the sends of virtual stages. NeMo's performance scripts do the same, and all or
  nearly all rows that state it.
- Megatron-LM since 2022 and NeMo accumulate gradients inside the weight products (the default). The zero-bubble code
  does, too, but its rows were not changed: they would be 6.3 instead of 1.8 % too fast. So another effect is missing.
- Zero bubble: the paper has a profile. In its middle stage, the two parts of the backward pass together take 3 to 5 %
  less than estimated with fused accumulation. The forward pass takes 9 to 16 % more. Steps take 8 to 12 % more than the
  sum of their passes.
- ZeRO-3 overlaps gathers. InternEvo overlaps gradients alone, as its configurations do. paxml and MaxText overlap on
  GPUs: their scripts turn XLA's scheduler on (JAX-Toolbox, run_base_config_multinode.sh; gpu-recipes, values.yaml).
  Error: MaxText 13.8 to 5.1 %, paxml of grade A- 11.7 to 15.8. Two steps of paxml in the literature overlap nothing:
  XLA did not under their recomputation policy (openxla/xla#14397). This was looked up after their errors were seen.
- NCCL takes the same share of a GPU from MaxText and paxml as from other software. It was looked at because their steps
  were too fast, here and in the literature; the value is that of the other stacks. JAX-Toolbox on A100 11.9 to 9.1 %,
  on H100 17.0 to 11.0, gpu-recipes on H200 8.6 to 7.2 and on B200 2.4 to 6.5, dgxc-benchmarking on H100 5.4 to 5.8.
- paxml shards weights inside a node, as its script does; otherwise its plans do not fit. Error of NVIDIA's benchmarks,
  of grade B: 8.0 to 19.8 %, all too fast.
- paxml's row without Transformer Engine stores the scores of attention.
- Mixtures that are one CUDA graph hide their all-to-alls, as the rows that state it do. Megatron-Bridge's mixtures on
  NVL72 have graphs of parts of a layer: 41 of 50 that state it do.
- Megatron-Bridge's Llama 3 8B on eight H100: buffers registered with NCCL, as in its recipe. This was found from the
  errors of two steps that are not among these rows.
- Megatron-Bridge's gpt-oss: Megatron-LM's native loss, as in its recipe (gpt_oss.py). It removes 0.9 points of the
  rows' mean error.
- LoRA: rank 16; targets are the software's default. Attention of NVIDIA's fine-tuning stays inside the documents of
  packed SQuAD. A document counts as 512 tokens, because the longest of a pack determines the kernel's grid (the mean
  has 200). LoRA rows are then 7 % too fast.
- torchtitan of 2024: an uncompiled loss (train.py), and FlashAttention 2 (pytorch#138522). Its eager RMS norms are
  single operators, as in PyTorch before 2.9. The two eager steps were 5 and 7 % too fast; they are 6 and 3 % too slow.
- llm-foundry on H100: FlashAttention 1. Its rows state no version; its fp8 runs install flash-attn 1.0.7.
- NeMo Automodel: norms of Transformer Engine, states and loss in 16 bits, gradients reduced once a step
  (examples/benchmark/configs).
- torchtune: the techniques that its table adds one by one. nanotron: the kernels of its code (models/llama.py).
  Gradients of DeepSpeed and InternEvo: the bucket sizes of their configurations.
- MaxText on v7x runs tokamax's attention, as tpu-recipes say (`use_tokamax_splash`). Attention in fp8, CUDA graphs and
  dispatchers are those that a row states.
- Megatron-Bridge's rows that drop tokens pad experts to their capacity, so the host reads no counts. With local CUDA
  graphs, their experts are in the graph of their layer.
- Shared experts of an unstated width are as wide as routed experts.
- Embeddings of MaxText and paxml are products with one-hot rows where their configurations say so.
- Primus: forced balance, one kernel for experts, and an activation of separate kernels where its configuration says so.

### Kernels

- Power: the rates of products and attention follow a device's watts with a fitted exponent (prior 0.5). Blackwell's
  tables already contain this effect: large fp8 products of B200, B300 and GB300 (1000, 1100, 1400 W) take 1, 0.95 and
  0.83. So it counts twice.
- B200 and GB200 have one table, scaled by the peak rate. Steps of Llama 3 8B in fp8 and mxfp8 on one node of B200, not
  among these rows, are 12 to 17 % too slow. They are estimated at 1.18 times GB200's time; 1.01 to 1.05 were measured.
- A fit without the power exponent for devices with own tables was tried. These steps are then 3 to 9 % too slow. But
  steps of GB300 in Megatron-Bridge become 6 % too slow (before: 0). The error of Blackwell's steps of 8 and 4 bits
  rises from 6.1 to 6.9 %. Most rows of GB300 are of releases since 26.02, dense rows of B200 of 25.09 and 25.11. So
  devices and releases cannot be separated, and the exponent stays.
- A device without a table uses tables of devices with the same chip (GB200 those of B200), also for attention in
  training. This was found from GB200's errors; tests that leave a device out of the tables support it.
- bf16 products on Blackwell take 1.34 times their table's time (fitted); sustained tables explain 1.15. Most bf16 rows
  of B200 are SimuMax's. On its machine products alone take 1.3 to 1.4 times the table's time
  (configs/system/b200_bf16_ceperm.json, 11 products, mean 1.33): 1000 to 1150 TFLOP/s, 1250 to 1350 in the sustained
  table. GPT-OSS also raises the factor.
- Two factors for these products were tried. If SimuMax's factor is 1.15 times that of the others, the others' is 1.28.
  SimuMax is then 4 % too slow and GPT-OSS 10 % too fast, so one factor stays. It is too high for some rows: Nemotron-4
  15B in bf16 on B200 and GB300, not among these rows, is 17 to 38 % too slow.
- One source has 1.20 and 0.91 s for one step on B200. The first agrees with the sustained table. The second needs
  products of 1510 TFLOP/s; sustained products of random numbers reach at most 1460.
- mxfp8 uses the tables of fp8_block: both quantise a block in one pass. The prior of its factor is 1.25, bf16's without
  its larger slowdown.
- nvfp4 training reads each input and gradient twice more, for scales and Hadamard transforms (arXiv 2509.25149).
- Heads run and are gathered in 16 bits when layers are quantised. Megatron-LM's output layer is not one of Transformer
  Engine (gpt_model.py); torchtitan, MaxText and llm-foundry are assumed to do the same.
- Products on Ampere and streaming kernels keep their textbook values, 1.13 and 0.80. The fitted 1.16 and 0.77 made
  unfused Megatron too slow.
- Products whose rows do not begin on 16 bytes take up to twice as long. The factor of odd widths is the mean of three
  values that differ (device_times.lua). One of them is the error of vTrain's steps inside a node.
- Products that add to gradients take the time of these bytes, by SimuMax's measured products.
- FlashAttention 1 on H100: prior 3.5, because versions 2 and 3 are each twice as fast as the one before (Dao 2023; Shah
  et al. 2024). It was 2.7 before llm-foundry's errors were seen.
- FlashAttention 2 on H100 has its measured rates (in_step.lua) since the errors of torchtitan's long contexts were
  seen. Rows of 8192 tokens became worse.
- Context parallelism moves the bytes that the code of Transformer Engine and PyTorch moves (`in_step.merge`). Its
  shapes and exchanges are theirs, too. This was looked up after the errors of long contexts were seen.
- torchtitan's exchanges of context ranks overlap nothing in compiled blocks (lua/stacks/torchtitan.lua). This was
  looked up after errors of the literature were seen. The rows of 2, 4 and 8 context ranks: -0.5 to +0.8, -25 to -23 and
  -27 to -26 %.
- Unfused attention includes Megatron-LM's biases and copies (`head_copies`), by its code. The zero-bubble rows led to
  it. Error: vTrain on several nodes 7.1 to 6.8 %, SC21 1.4 to 0.8, Korthikanti 0.7 to 1.2, zero bubble 4.1 to 3.4,
  bigscience 15.0 to 14.5.
- The products of attention heads take as long as one product of all their rows, by A100 samples that are not steps
  (1.15 times before). Lower clocks slow only the arithmetic share. Megatron's unfused attention became 2 % faster, and
  its errors larger. In these samples the fused masked softmax takes 1.34 (forward) and 1.44 times (backward) the time
  of its bytes.
- Gradients of biases, sums of gradients behind a dropout, norm, clipping and unscaling of gradients, and DeepSpeed's
  copies take the time of their bytes. These are counted from the code of Megatron-LM and DeepSpeed. Small kernels that
  join an operator cost no host time.
- Unfused cross entropy moves the bytes that its kernels move; the earlier factor of 3 was too high.
- Megatron-LM's native loss moves 48 bytes a logit, by its code and a profile of Qwen3-8B (`in_step.cross_entropy`).
  Errors of 20 steps of Qwen3 in Megatron-Bridge, not among these rows, led to it. Error: mixtures 10.3 to 10.0 %, SFT
  2.1 to 3.1.
- Norms of heads in Transformer Engine have its slow sum of the weights' gradients (`norm = "te"`). The constants are
  kernel times of the source of these 20 steps. Error: Megatron-Bridge on H100 7.4 to 7.0 %, mixtures 10.0 to 10.1.
- Megatron's activations without fusion take 3.1 times the bytes, by the same profile. No row here has them.
- Dropout is assumed to be memory-bound. If random numbers limited it, rows of 2021 would fit better, those of
  Korthikanti and of vTrain inside a node worse.
- Experts on CUDA streams have a fixed time of 0.17 ms besides their factor (`in_step.streams_start`, fitted). Streams
  wait for each other in Transformer Engine's code; that the rest is waits of ranks is assumed. Errors of Qwen3 235B on
  256 H800 led to it. Error: mixtures in the fit 7.5 to 6.7 %, unseen mixtures 21.6 to 20.7, H100 6.2 to 5.8, GB200 7.2
  to 7.5.
- Attention with few blocks: the fixed cost of the last block is twice the mean (`alone_fixed`), also without a mask. It
  was chosen on kernels of H100 and H200 without a mask (`attention_bidirectional_forward`).
- Assumed products below 16 bits, on devices without kernel tables, include the quantisation of their operands
  (profile/assumed.lua). The cause was searched for because fp8 products of H100, L40S and B200, as if they had no
  tables, took 28 to 41 % less than measured. Mean error of these three: 28 to 15 %, 28 to 15, 38 to 25.
- Experts: grouped kernels have a fitted factor on GPUs (prior 1.1). The product of one local expert has no factor of
  streams: Transformer Engine takes one stream for it (nvte_multi_stream_cublas_gemm). It had one, because Grok's rows
  of 2024 were 20 % too fast without it. Error: mixtures 9.7 to 10.3 %, H100 5.7 to 6.2, literature 15.0 to 14.6.
- Steps of Grok and Mixtral that are not among these rows led to this: with the factor they were 10 to 64 % too slow.
  Grok-1 on 512 H100 in 2025 (dgxc-benchmarking, grok1/README.md, 1f6d9f4) was 33 % too slow in bf16 and 10 % in fp8. It
  is now 13 % too slow and 3 % too fast. The factors were not fitted again: with a new fit mixtures had 10.7 %.
- MaxText's experts run in Megablox with tiles of 512 rows, which two experts can share. Its tensor ranks split experts
  as they split dense products, gather the stream before the router and scatter the outputs (moe.py).
- gpt-oss clamps inputs of its activation and scales its rotations, Qwen3 has norms of queries and keys. Megatron runs
  these as kernels of their own (fused_bias_geglu.py, rope_utils.py), and adds experts' biases in one, except in one
  CUDA graph (experts.py). Clamps and biases remove 1.5 points of gpt-oss's error.

### Stacks

- Megatron's experts are separate products on CUDA streams, each with host time (Transformer Engine's GroupedLinear). In
  one CUDA graph they are one kernel.
- Megatron FSDP adds gradients in kernels of their own, as all recipes of Megatron-Bridge with it say. The published
  steps state it. Eight steps of the literature became 0.5 to 3 % longer.
- The factors of mixtures were fitted again with the fixed time of experts. A fit of all factors after the corrections
  above was tried: errors stayed at 6.1 % (published) and became 11.9 instead of 11.8 % (literature). It was not kept.
- Launches of Megatron of 2021 and 2022 keep 60 us, a textbook value. The fitted 79 us came only from rows with
  `CUDA_LAUNCH_BLOCKING=1` and made vTrain's steps inside a node at least 20 % too slow. With that variable the host
  waits for each kernel.
- Routing launches are fitted (prior 7). With 25 as the value before a fit, rows with few tokens were twice too slow.
- With CUDA graphs of parts of a layer, the launches of all other parts remain, and a quarter of the routing launches.
- If all-to-alls run beside another micro-batch, a layer takes the host 1.4 times as long (prior). The fields that
  determine it were found from the errors of Qwen3 at one sequence per micro-batch.
- Grace takes longer than x86 to launch (fitted, prior 2.6). One product of PyTorch takes 2.5 to 2.75 times as long
  (NVIDIA/TransformerEngine#2053). A cause was searched for because mixtures on GB200 were 11 to 15 % too fast, those on
  B200 and B300 not.
- Transformers 4 runs experts in a loop. DeepSpeed's ZeRO-3 gathers each weight in hooks of its module, which takes the
  host 0.7 ms in each pass (`gather_seconds`). That value is from LoRA of Qwen2-7B on eight H100 (QwenLM/Qwen3#736). It
  was searched for because Qwen3-30B-A3B on 16 A800 was estimated at a sixteenth of the measured time. Now it is 3 %
  too fast. With the same value two dense steps of the literature are 1 and 4 % too fast, before 7 and 10. No published
  row changes.
- InternEvo has its own stack, from its code and its installation page. It has FlashAttention 1 and norms of inputs cast
  to fp32. Gradients are copied into buckets and summed in bf16 over all replicas. Owners broadcast whole tensors after
  the update.
- InternEvo: the stack was searched for after the errors were seen. Rows with states shared by all 512 or 1024 devices
  were 19 to 39 % too fast, now 7 to 21 %. Rows with states shared by 8 devices were 1 % too fast, now 6. Steps of one
  and two micro-batches on 512 and 1024 devices became worse (16 to 24 % too fast). Their reductions take longer than
  the cards' rate implies; the reason is unknown.
- Transformer Engine gathers tensor-parallel operands in the products' data type. torchtitan does not, if its scales are
  of rows (`enable_float8_tensorwise_tp`).
- Stages that receive activations split over tensor ranks gather them (code of Megatron-LM and DeepSpeed). Error of
  Vista: 6.4 to 4.6 %.
- Sums of input gradients overlap weight products in Megatron-LM since 2022 and in Transformer Engine (Korthikanti et
  al., section 6.2). In rows of 2021 and of DeepSpeed they are exposed. It was found when the gathers above had made
  Korthikanti's rows too slow. Their error: 3.0 to 1.1 %. GB200, GB300 and nvfp4 became better, B200 without overlap
  worse (7.6 to 7.9 %).
- Megatron-DeepSpeed's sends run one after the other, as in DeepSpeed.

### Communication beside computing

- Communication takes a third of a device from overlapped computing (fitted, prior DeepSeek's 0.15). All-to-alls of
  DeepEP and HybridEP keep 0.15, which was chosen after the errors of mixtures were seen. Gradients and parameters of
  these stacks have the fitted share since the errors of gpt-oss were examined.
- Sharded data parallelism slows kernels by a factor for the device's generation. It falls above 16384 tokens of a
  micro-batch.
- HybridEP reaches 0.75 of the links of a node or NVLink domain (DeepEP, docs/README_Hybrid-EP.md, kernels alone).
- DeepEP and HybridEP send a token once to each rank, unless a plan says otherwise (`deduplicate_tokens`). This became
  the stacks' default after errors of the literature were seen. The published rows state it.
- Collectives of three, five, six and seven GPUs lie between the times of measured numbers of GPUs
  (kernels/collectives.lua). The rule was chosen on tables of A100, H100 and L40S.

### TPU

- Products, attention and experts have rates of profiled kernels, no fitted factors: one step on v6e, one on v7x,
  attention alone on v5p (in_step.lua, kernels/splash.lua). With factors fitted to other sources, steps on v6e, v5p and
  v7x were 9, 12 and 18 % too fast. With these rates they were 3, 6 and 9 % too fast. TPUs with matrix units of 128 x
  128 use H200's laws of attention with measured factors.
- JAX's older attention kernel (`pallas_flash`) has a time from four steps of a pull request (kernels/splash.lua). It
  was looked up after the errors of six steps of PyTorch/XLA were seen. No row here has it.
- Shares of the peak rate are measured. They were looked up after errors of up to 42 % (grade B) and 67 % (literature)
  with H200's share. v4 and v5p use v5e's share. Two measurements of v6e differ, 79 and 87 %; a profiled step agrees
  with the first. For v7x, ett uses 77 %, at the default clock; other benchmarks reach 83 and 94 %.
- Passes of MaxText over mixtures and latent attention are counted from its code (moe.py, attention_mla.py). Error of
  v7x: 9.5 to 7.4 %. Mixtures on v7x are still 6 to 12 % too fast; the reason is unknown. Twelve steps of Hunyuan 3, not
  among these rows, are 18 to 29 % too fast (before: 20 to 31). They lack time that does not depend on the tokens.
- Llama 4 Maverick, v5p's only row, is 16 % too fast since products are stored after the sum over tensor ranks.
- Reduce-scatters on v6e overlap nothing and reach 0.545 of the links (profiles of Qwen3-8B, clusters/tpu_v6e.lua).
  Error of twelve steps: 4.7 to 2.6 %, of the dense ones 4.3 to 1.8. Four steps that are not among these rows were 13 to
  23 % too fast, then 5 to 16. The gathers were not changed: the step of that profile waits 9 ms for them, the estimate
  14.
- v4, v5e and v5p have no measured reduce-scatters, so theirs overlap. On v4 XLA does not overlap them either
  (ultrons/jax-gpt, FINDINGS.md). With v6e's share, v5e 64B on one slice would be 12 % too slow, not 3. The steps of v5p
  512B would be 13 to 18 % too slow, not 5 to 9. Rates of their products are assumed, so these errors do not decide it.
  v7x's recipes let the SparseCores reduce, so theirs overlap.
- Two profiles of other programs give hints on v7x. In jax-gpt's DeepSeek-V3 the projections of latent attention take
  1.8 s forward, estimated 0.3 (iter6_checkpoint_bisection.md). In a step of Hunyuan 3, products and kernels reach 527
  TFLOP/s a device, products alone 885 (yangwhale/gpu-tpu-pedia, TUNING-v7.md). In an earlier profile of it, waits for
  gathers take 42 % of a step and exposed collectives 15 %. That run lacks the recipes' flags, so it gives no value.

### AMD

- Attention has AMD's printed rates of AITER's kernels on MI300X and MI355X, and the factor of one profiled step. Error
  of six MLPerf rows of grade B, which state almost no plan: MI350X 5 to 15 %, MI355X 21 to 17. MI350X is now estimated
  20 % slower than MI355X, before 6 %; measured are 23 %.
- Rows of 2024 have Composable Kernel's attention; AITER's is in Transformer Engine for ROCm since December 2024.
- Products of 8 bits include casts in addition to the tables. The literature's fp8 rows of MI300X were 28 to 56 % too
  fast. With Composable Kernel's attention they are 14 to 18 % too fast. Products are not the cause: hipBLASLt reaches
  955 to 1160 TFLOP/s (Azure's AI benchmarking guide), the estimates are 840 to 1200.
- Nine steps were collected before any estimate of them: MLPerf's Llama 2 70B with LoRA, Qwen3-30B of Primus,
  DeepSeek-V3 16B of torchtitan. Then kernels of experts, forced balance and partial recomputation were looked up.
  Error: 13.8 to 4.1 %. Ten more steps of Primus followed. Launches of experts and the rate of DeepEP's kernels were
  looked up after them. Error: 16.0 to 5.9 %.

### Memory

- nanotron: memory of the first rank, in units of 2^30, with 16-bit gradients beside those in fp32. Error: 19.6 to
  7.8 %.
- torchtune: units of 2^30, pure bf16 states, and the techniques of its table. Gradients of a single micro-batch take
  the memory of freed activations. Error: 59.4 to 5.4 %. The optimizer inside the backward pass is not modelled.
- Optimizer states: 10 bytes a parameter in NeMo 1 (Apex), 4 in its fine-tuning and in Nemotron 340B (`optim.dtype:
  bf16`). 70B on v6e-32 has bf16 weights, as in its recipe.
- Devices have the memory that the driver reports. If a row's device has another size, it is that size times 1.06.
- Korthikanti et al.: gradients in fp32, 18 bytes of states a parameter. Rows in fp16 have gradients in fp16. Under
  ZeRO-3, in NeMo, InternEvo and torchtune they are in bf16, elsewhere in fp32.
- Weights of fp8 replace those in 16 bits where Megatron-Bridge's and NeMo's precision recipes say so
  (`fp8_param_gather`).

### Intervals and chances

- Half-widths beyond the kernels' own were chosen from errors of left-out sources. Chosen on half of the sources, they
  cover 88 % of the other half's steps. That of experts was then lowered from 0.5 to 0.42.
- Intervals reach further up than down, because steps are slower than estimated more often. Both factors are fitted with
  equal weight for every source.
- Steps of software that was not compared have a wider interval, fitted to the rows with stacks of other software
  (spec/bench/support/fit_other_software.lua).
- Intervals of runs that are no published recipes reach further up (`recipe` of the plan, runtime/step/README.md). The
  rows here count as recipes, because mechanisms and factors come from their sources. The width was fitted to 263 steps
  of the literature (fit_own_run.lua). Of the 59 steps that are held out, 93 % lie inside; before it was 71 %.
- MaxText and paxml count as not compared on GPUs. Of 13 rows on H100, JAX-Toolbox's two were 17 % too fast then (11 %
  now), and one of them was outside. The choice was made after the literature was seen: 1 of 10 such steps was inside.
- Fields that a plan leaves open widen the interval (runtime/step/README.md). No constant is fitted. Which fields count
  was chosen on 184 steps of the literature. 93 % of these rows are inside, with a half-width of 14.7 %, as before. CUDA
  graphs of mixtures (`other_graphs`) and FlashAttention 2 in torchtitan (`other_attention`) count since errors of the
  literature were seen. No row here changed.
- The interval of host waits has both ends from other launch times since errors of the literature were seen. The number
  of rows inside and the median half-width here did not change.
- The share of operators without kernel tables or samples widens the interval by 0.5 (spec/bench/support/fit_facts.lua).
  719 of these rows were estimated from the datasheets of their devices alone. Each device was also left out of the fit.
- A search compares plans on two devices, or under two software, by the intervals of both. The rule was chosen with the
  figures of the pairs here in view; it has no constant. Of pairs on two devices 93 % have the stated order, and 91 % is
  the mean stated chance. Before, errors of the parts counted twice (79 %).
- The constants of a search's probabilities are maximum-likelihood estimates; sources are weighted by the square root of
  their pairs. Both plans of a pair have the same number of GPUs and the same batch. Some twenty variants and ten
  structural forms were no better. In every tenth, stated chances differ from shares by at most 6.5 points; exact
  chances would do so in 27 % of such samples.

### Not modelled, or not explained

- MT-NLG 530B: three rows differ only in replicas, and so in micro-batches. They lie on a line of 0.197 s a micro-batch,
  bubble included, and 6.0 s besides. The estimates have 0.185 and 0.6 s. SC21's model of that size is 1 % too fast.
- BLOOM at tp 8: micro-batches of two and four sequences are 7 to 11 ms a layer too short (one row 2 ms). Its last
  stage, with a head of 250,880 tokens, takes 1.6 times a middle one. The cause is not `CUDA_LAUNCH_BLOCKING`. Its cost
  was measured in that run.
- Llama 3.1 8B on H100 over Ethernet, two rows: 0.14 s a step too short at tp 1, 0.15 s at tp 2.
- Nemotron-4 340B in fp8 on GB200, of May 2025: 9 to 11 % too fast, while bf16 fits.
- torchtitan with asynchronous tensor parallelism: 12 % too fast in bf16, 1 in fp8, 14 in fp8 with scales of rows. The
  last is 15 % too fast without it. Before, they were 17, 6 and 31 % too fast. PyTorch's compiler overlaps a
  reduce-scatter with one product, but not with the sum of several products' input gradients. It overlaps no gather
  whose result is quantised afterwards (micro_pipeline_tp.py). This was looked up after the errors were seen. No other
  row changes.
- torchtitan with 4 and 8 context ranks: attention takes 1.5 times that of 1 and 2 ranks, although its code balances the
  load. A rank always has 32,768 tokens, so the kernels are the same. Yet each block of another rank's keys takes 1.7
  times as long as with two ranks, with four and eight alike.
- fms-fsdp: its printed utilisations imply that 41 and 81 % of the layers are recomputed on A100, 19 and 58 % on H100.
  The estimates have half. On A100 the passes alone would take 3 and 9 % longer than the steps.
- A share of communication by NCCL's channels was tried: with four network cards they are half as many as with eight
  (graph/connect.cc). The error of fms-fsdp on A100 would fall by 9 points. InternEvo would rise from 6.6 to 8.9 %,
  BloombergGPT from 0.7 to 5.7.
- gpt-oss: a mean error of 11 % remains. Host waits in each layer (the clamp's offset) and buffers that graphs of the
  whole step pad to 1.5 times the tokens are not modelled. Two rows of 26.06.01 are a regression by their source and
  take 1.6 times as long as their neighbours.
- paxml's first gather of each layer does not overlap (no double buffer). It cannot be the only cause: three of four
  rows would stay 7 to 18 % too fast without any overlap.
- vTrain over several nodes: the regret comes from one set. The plan of tp 4 and dp 32 is chosen (estimated 9.1 s,
  interval 7.9 to 11.3). It takes 4.5 % longer than the best, tp 8 and dp 32 (10.0 s, 8.0 to 13.5).
- vTrain over several nodes: rows with two or four data-parallel ranks in a node are estimated 0.1 to 1.6 s too short.
  Gradients would have to move at 25 to 44 GB/s a node; groups of one or eight ranks reach the 85 of the links. Steps on
  Selene (SC21) show no such loss (2.0 % too slow to 0.3 % too fast), nor does any other source. So no rule is fitted.
- A rule would not correct this choice. A third plan would be chosen, which takes 9 % longer than the best. Only its
  micro-batch differs from the best: 16 sequences instead of 8. A model without the median error of each layout has a
  regret of 4.7 % (spec/bench/support/regret_noise.lua).
- A cause in the network was searched for. vTrain's nodes have four cards for eight devices. NCCL before 2.20 sent rings
  of two or four devices of a node across the rails of a network. Alone, such groups take 0.95 (two devices) and 1.25 to
  1.45 times (four) the time at the cards' rate (NVIDIA/nccl issues 569 and 1411). The rows would need two to three
  times. Three other rows take 1.4 to 1.9 times as long as similar ones, with the same messages and kernels.
- vTrain over several nodes, errors by layout (medians). 3.6 billion parameters, one stage, tp 1, 2, 4, 8, 16: +1, -4,
  -7, +4, +6 %. 18.4 billion, tp 8, stages 1, 2, 4: +1, 0, -3 %. Eight stages (four rows): 7 to 10 % too slow, 2 to 5
  without the head. Three rows of tp 4 and 8 whose micro-batch has 2 or 64 sequences are left out: 26 to 47 % too fast.
  The simulator recomputes no layer of the last stage (predictor.py); DeepSpeed's engine has no such exception
  (pipe/module.py).
- Two of these plans are in SC21's table, too, with eight cards a node instead of four, and Megatron-LM. The measured
  steps differ by 0.24 and 0.20 s, the estimates by 0.15 and 0.52 s.
- vTrain over several nodes, the least regret: rows of one layout with different micro-batches scatter around the median
  error of their layout. Half of them scatter by less than 1.6 %, the largest by 93 %. A model of exact times with this
  scatter (spec/bench/support/regret_noise.lua) has a regret above 1.5 % in 43 % of draws, above 1 % in half. It orders
  92.5 % of the pairs correctly. Without the three largest deviations these are 34, 45 and 97.8 %. No plan is measured
  twice.
]]
