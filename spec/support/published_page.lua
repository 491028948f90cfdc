--- ACCURACY.md: the figures of `ett bench published` as a page.
local page = {}

local intro = [[
# Accuracy

This page compares ett's estimates with training steps that others measured and published. It was written by
`ett bench published --page ACCURACY.md` on %s at commit %s.
Edit spec/support/published_page.lua, not this page.

The rows are whole training steps of grade A and A-; each measurement counts once. A few in-step factors are fitted to
them (spec/support/published_factors.lua). **Each row is estimated with factors that were fitted without its source.**
`ett bench published --rows` prints every row.

| column | meaning |
|---|---|
| answered | number of estimated rows, of all rows |
| error | mean of abs(estimated / measured - 1) |
| median, bias | median of abs(estimated / measured - 1); mean of estimated / measured - 1 |
| inside | share of rows inside their 90 %% interval |
| half-width | median half-width of the interval |

]]

local planner = [[
## Steps asked for by a command line

`ett bench literature` estimates measured steps of sources that are not on the rest of this page. Each is a command line
as a planner would write it. The settings that its source leaves open have ett's defaults, and some of the software has
no stack of its own. So this table shows what to expect of a plan of software that was not compared.

]]

local titles = { { "all", "All" }, { "architecture", "By architecture" }, { "hardware", "By hardware" },
  { "precision", "By precision" }, { "nodes", "By nodes" }, { "recompute", "By recomputation as the row states it" },
  { "packed", "Packed sequences" }, { "use", "Fine-tuning" }, { "grade B", "Grade B" }, { "source", "By source" } }

local judgements = [[
## Judgements made after errors were seen

Mechanisms, priors and values of unstated fields were chosen after the errors of all rows had been seen. Most are from
memory of the software and were not checked against its code. So the errors above are optimistic. These are the choices:

- MaxText rows without a stated policy use full recomputation: its default `remat_policy`. Rows of `minimal` and
  `save_dot_with_context_except_mlp` repeat the operators that these policies do not store, according to MaxText's code.
  With full recomputation, one of them (H200) was 11 % too slow. Rows of `save_qkv_proj` count as full recomputation.
- Eager steps of torchtitan of 2024 have RMS norms of single operators, as PyTorch had before 2.9. With one kernel
  they were 5 and 7 % too fast, now they are 6 and 3 % too slow.
- Selective checkpointing of fms-fsdp, and of torchtitan by layer, repeats every second layer. torchtitan's selective
  checkpointing by operator repeats the operators that its code does not store.
- ZB-1p and ZB-2p rows use the schedules zb_1p and zb_2p, ordered by the estimated times of units. All rows of that
  paper have the settings of its software's first script and Megatron-LM's defaults: fp16, fused softmax, dropout, tied
  embeddings. The rows' vocabulary of 51,200 contradicts the numbers of parameters that they state. These numbers imply
  25,500 to 33,500; 32,000 is used. The printed memory agrees: its error is 2.5 %, at most 6.4. With the rows as printed
  it is 26 to 42 % above the estimates. With 51,200 the mean errors are 6.3 % under zb_1p and 11.3 % under zb_2p,
  instead of 3.2 and 2.5. The paper's profile (arXiv 2401.10241, table 6) excludes 51,200 for 1.5B: two layers, this
  head and its loss would take a tenth longer than the step. The authors' table of these rows and of 28.3B was seen
  during this search.
- Unfused attention includes the biases and copies of Megatron-LM's own layers (`head_copies`), as in its code. The
  zero-bubble rows led to this change. Mean errors before and after: vTrain on several nodes 7.1 and 6.8 %, SC21 1.4 and
  0.8. Korthikanti 0.7 and 1.2, zero bubble 4.1 and 3.4, bigscience 15.0 and 14.5.
- Unfused cross entropy moves the bytes that its kernels read and write. The earlier factor of 3 was too high.
- If a row says that embedding and loss count as layers, the first and the last slice hold one layer less.
- Steps of sharded data parallelism have a slowdown that depends on the device's generation.
- With `CUDA_LAUNCH_BLOCKING=1` the host waits for each kernel.
- NeMo's rows that do not state it overlap tensor-parallel communication (except nvfp4 rows). They accumulate gradients
  inside the weight products. All NeMo rows that state it do the same.
- Sends of Megatron-DeepSpeed's pipelines run one after the other, as in DeepSpeed.
- LoRA rows without a rank have rank 16. Rows without targets have their software's default. LoRA rows use full
  recomputation if they do not fit otherwise.
- With CUDA graphs of parts of a layer, the launches of all other parts remain, and a quarter of the routing launches.
  Mixtures of experts of Megatron-Bridge on NVL72 that do not state graphs have these graphs, as most that state them.
- In a pair of micro-batches (all-to-alls overlap computing), a layer takes the host 1.4 times as long. This is the
  value before the fit. The fields that determine it were found from the errors of Qwen3 at one sequence per
  micro-batch.
- InternEvo's rows have their own stack, from its code and its installation page. It runs FlashAttention 1, and norms of
  inputs cast to fp32 that the backward pass repeats. Gradients are summed in bf16 over all replicas. Each rank owns
  whole tensors and broadcasts them after the update, over 8 or over all replicas. This was searched for after the
  errors were seen. Rows with states shared by all 512 or 1024 devices were 19 to 39 % too fast, now 7 to 21 %. Rows
  with states shared by 8 devices were 1 % too fast, now 5 %. Before, a slow gather that these rows do not run
  compensated for too fast computing. Steps of one and two micro-batches on 512 and 1024 devices became worse (16 to
  24 % too fast). Their reductions take longer than the cards' rate implies; the reason is unknown.
- The rates of products and attention follow a device's power with a fitted exponent (prior 0.5).
  Blackwell's tables already contain this effect, so it counts twice. In them, large fp8 products of B200, B300 and
  GB300 (1000, 1100 and 1400 W) take 1 to 0.95 to 0.83, which agrees with the exponent. B200 and GB200 have one table,
  scaled by the peak rate. So fp8 and mxfp8 steps of Llama 3 8B on one node of B200 are 12 to 17 % too slow. They take
  1.18 times GB200's time; measured are 1.01 to 1.05. A fit without the factor for devices with tables of their own
  makes these steps 3 to 9 % too slow. But it makes steps of GB300 in Megatron-Bridge 6 % too slow (now 0). The error of
  Blackwell's steps of 8 and 4 bits rises from 6.1 to 6.9 %. Most rows of GB300 are of releases since 26.02, dense rows
  of B200 in Megatron-Bridge of 25.09 and 25.11. These rows do not separate devices from releases, so the factor stays.
- Llama 3 8B of Megatron-Bridge on eight H100 registers its buffers with NCCL, as its recipe does. It was found from the
  errors of two steps that are not among these rows.
- Communication takes a third of a device from overlapped computing. This is fitted, with DeepSeek's 0.15 as prior. The
  all-to-alls of DeepEP and HybridEP keep 0.15, which was chosen after the errors of mixtures of experts were seen. The
  gradients and parameters of these stacks also had 0.15 at first, although NCCL moves them. They have the fitted share
  since the errors of gpt-oss were examined.
- A device without a table uses the tables of devices with the same chip, if there are any. Their multiprocessors have
  the same rates (GB200 uses B200's tables). Tests that leave a device out of the tables support this. It was found from
  the errors of GB200's rows.
- mxfp8 uses the tables of fp8_block: both quantise a block in one pass. The prior of its factor is 1.25: bf16's factor
  without the larger slowdown of bf16 (1.41 / 1.15 * 1.03). It was chosen after the errors of its rows were seen.
- If layers are quantised, heads still run in 16 bits and are gathered in 16 bits. Megatron-LM's output layer is not a
  layer of Transformer Engine (gpt_model.py). torchtitan, MaxText and llm-foundry are assumed to do the same, from
  memory.
- If a device has no table of attention in training, the level of these times comes from attention kernels of the same
  chip (GB200 from B200). Before, GB200 was estimated as fast as GB300. TPUs with matrix units of 128 x 128 use H200's
  formulas with measured factors.
- Sends overlap if a row says so; before, this field was not read. If a row of NeMo does not state it, the sends of its
  virtual stages overlap.
- NeMo and Megatron-Bridge rows that do not state it overlap gradients and parameters. Such rows of NeMo also reduce in
  bf16. NeMo's performance scripts do the same, and all but two rows that state it.
- NVIDIA's fine-tuning packs SQuAD, so attention stays inside documents. Documents count as 512 tokens, more than
  SQuAD's 200, because the longest document of a pack determines the kernel's grid. LoRA rows are then 6 % too fast.
- Tensor-parallel ranks gather operands of products in the products' data type, as Transformer Engine does.
- nvfp4 training reads each input and each gradient twice more, for scales and Hadamard transforms (arXiv 2509.25149).
- One local expert has the same factor as several experts. Without it Grok's rows were 20 % too fast.
- MaxText's experts run in Megablox with its default tile of 512 rows, which two experts can share. Its tensor
  parallelism splits experts as it splits dense products. Its ranks gather the stream before the router, and scatter the
  outputs of experts (moe.py, sparse_matmul).
- Rows of Megatron-LM since 2022 that do not state gradient accumulation have its default: inside the weight products.
  The code of the zero-bubble rows does the same. With this default their steps would be 6.3 % too fast instead of
  1.8 %. So they were not changed: another effect is missing in their estimates. The paper has a profile of a middle
  stage. With fused accumulation, B and W together take 3 to 5 % less there than estimated. F takes 9 to 16 % more.
  Steps take 8 to 12 % more than the sum of their passes.
- XLA's recomputation omits a layer's last product, because XLA removes code with unused results. PyTorch's full
  recomputation omits it, too, with the sum over its ranks and the residual addition (`early_stop`).
- The prior of FlashAttention 1 on H100 is 3.5 times the time of the newest kernel. Versions 2 and 3 are each about
  twice as fast as the one before (Dao 2023, Shah et al. 2024). The prior was 2.7 before the errors of llm-foundry were
  seen.
- FlashAttention 2 on H100 has its measured rates (in_step.lua) since the errors of torchtitan's long contexts were
  seen. The fit had made its backward pass a fifth faster than measured. Rows of 8192 tokens became worse.
- Context parallelism includes the bytes that the merging of partial attention moves. They are counted from the code of
  Transformer Engine and of PyTorch (in_step.merge). This was looked up after the errors of long contexts were seen.
  So were the shapes of a ring's kernels, and PyTorch's exchange: repeated keys, gathers beside attention, gradients in
  fp32.
- Products of an odd width: the sources differ, and the factor is the mean of three values. One of them is the error of
  vTrain's steps inside a node, whose vocabulary has 50,257 tokens (lua/ett/profile/device_times.lua).
- BLOOM's rows have the network rate that NCCL reached on their machine. The source's benchmark, an all-reduce of 4 GB
  over four nodes, took 1.529 s (experiments/bandwidth/all_reduce_bench-a100-n4.txt). It used one of a node's four
  cards in each direction: 5.07 GB/s of 12.5. That four cards reach four times as much is assumed. The benchmark was
  found in a search for the cause of the errors, whose mean fell from 12.9 to 10.5 %. The row of tp 1 became worse: 12
  instead of 6 % too slow. Factors were not fitted again.
- Launches of Megatron's software of 2021 and 2022 keep their textbook value, 60 us. The fitted 79 us came only from
  steps with `CUDA_LAUNCH_BLOCKING=1`. It made vTrain's steps inside a node at least 20 % too slow.
- Routing launches count as 8 operators before the fit. With 25, rows with few tokens were twice too slow.
- bf16 products on Blackwell take 1.34 times their table's time after the fit. Sustained tables explain 1.15. Most bf16
  rows of B200 are SimuMax's. Products alone take 1.3 to 1.4 times the table's time on its machine
  (configs/system/b200_bf16_ceperm.json: 11 products of Llama 3, mean 1.33). Rows of GPT-OSS are too fast for a reason
  that is not known (below), and they also raise the factor. If the factor of SimuMax's rows is 1.15 times that of the
  other rows, the fit gives the other rows 1.28. Then estimates of SimuMax become 4 % too slow and of GPT-OSS 10 % too
  fast. So the factor stays, and it is too high for some sources: Nemotron-4 15B in bf16 on B200 and GB300 is 17 to 38 %
  too slow. On B200, one source has 1.20 and 0.91 s for the same step. The first agrees with the sustained table; for
  the second, the products alone would need 1510 TFLOP/s. Sustained products of random numbers reach 1460 at most.
- The host of GB200 and GB300 (Grace) takes longer to launch kernels than x86. The factor is fitted, with a prior of
  2.6. One product of PyTorch takes Grace 2.5 to 2.75 times as long (NVIDIA/TransformerEngine#2053). A cause was
  searched for because mixtures on GB200 without a graph of the whole step were 11 to 15 % too fast. Those on B200 and
  B300 were not.
- In Megatron each expert runs as separate products on CUDA streams, and each product costs host time (Transformer
  Engine's GroupedLinear). Steps that are one CUDA graph run one grouped kernel.
- Megatron adds the biases of experts in a separate kernel (experts.py, `_apply_bias`), except in steps that are one
  CUDA graph.
- PyTorch's full recomputation omits a dense layer's last product (`early_stop`). It is unknown whether the PyTorch
  releases of the rows do so.
- vTrain's steps inside a node use full recomputation, according to their configurations; the rows do not state it.
- vTrain's rows run the fused softmax of their note and of that simulator's model; their field says "unfused". Rows of
  Megatron-DeepSpeed have Megatron-LM's default dropout of 0.1, which BLOOM's script does not change.
- vTrain's steps inside a node are exact sums of parts: the time of reducing gradients is the same for every micro-batch
  and tensor degree. They have the vocabulary of that simulator's model, 50,257 without padding. Products whose rows do
  not begin on 16 bytes take up to twice as long, according to nanoGPT's author's report on this vocabulary.
- Products of heads were assumed to take 1.15 times one product of all their rows. The shared samples of A100, which are
  not steps, give 1.0. Lower clocks now slow only the arithmetic share of these products. This made the steps of
  Megatron's unfused attention 2 % faster, and their errors larger. In the samples the fused masked softmax takes 1.34
  (forward) and 1.44 (backward) times its bytes' time. Other missing work was searched for in Megatron-LM's and
  DeepSpeed's code. It is gradients of biases, the sum of gradients behind a dropout, norm, clipping and unscaling of
  gradients, and DeepSpeed's copies. Bytes are counted from the code, none are fitted. Small kernels that join an
  operator cost no host time.
- Dropout kernels are assumed to be memory-bound, because Philox needs few instructions per value. If random numbers
  limited them, rows of 2021 would fit better. Those of Korthikanti et al. and of vTrain inside a node would fit worse.
- In vTrain's rows, data-parallel groups with two or four devices of each node seem to take two to three times the time
  at the cards' rate. Groups with one device or all eight do not. The nodes have four cards for eight devices. A ring of
  two or four devices then enters a node by one card and leaves by another. NCCL before 2.20 sent such rings across the
  rails of a network. But such groups alone take 0.95 times (two devices) and 1.25 to 1.45 times (four) the time at the
  cards' rate (NVIDIA/nccl issues 569 and 1411). The rows of SC21 show no such effect, so it is not modelled. A model of
  it would not correct the wrongly chosen plan. A row of 10.5 s would then be chosen instead of one of 9.6 s with half
  of its micro-batch. Three rows that take 1.4 to 1.9 times as long as similar rows are unexplained. Others with the
  same messages, kernels and more memory are not slow.
- Stages that receive activations split over tensor ranks gather them, as in the code of Megatron-LM and of DeepSpeed.
  This was found after Vista's errors were seen (6.4 %, now 4.6).
- All-reduces of input gradients over tensor ranks overlap the weight-gradient products in Megatron-LM since 2022 and in
  Transformer Engine (Korthikanti et al., section 6.2). In rows of 2021 and of DeepSpeed they are exposed. This was
  found after the gathers had made the rows of that paper 3.0 % too slow (now 1.1 %). It applies to all rows. Those of
  B200 without overlap became worse (7.6 and 7.9 %), GB200, GB300 and nvfp4 better.
- The slowdown of kernels that overlap gathers of sharded weights falls above 16384 tokens of a micro-batch.
- Gathers of sharded weights (ZeRO-3) overlap if a row does not state it. InternEvo overlaps gradients, as its
  configurations do. MoE steps that are one graph hide their all-to-alls.
- XLA was assumed not to overlap on GPUs until the errors of paxml's rows were examined. The scripts of paxml and of
  MaxText turn its scheduler on (JAX-Toolbox, run_base_config_multinode.sh; gpu-recipes, values.yaml). Paxml
  recomputes according to its configuration (google/paxml, scripts_gpu/configs.py). It stores the outputs of products
  and repeats the rest; in fp8 it repeats all. Its row without Transformer Engine stores the scores of attention. The
  error of Google's MaxText rows changed from 13.8 to 5.1 %, that of paxml's rows of grade A- from 11.7 to 15.8.
  The rows of NVIDIA's benchmarks, of grade B, shard weights inside a node, as their script does. Without, their plans
  did not fit. Their error rose from 8.0 to 19.8 %, all too fast.
  Paxml's loop over layers has no double buffer: the first gather of each layer does not overlap. This is not
  modelled. It cannot be the only cause: three of the four rows would be 7 to 18 % too fast even if no gather
  overlapped.
- NeMo's rows before 25.04 have the layers of that release's own configurations (NeMo-Framework-Launcher). These state
  biases, dropout, fused softmax and gradients in fp32 for some rows. Their loss is Megatron-LM's native fused one,
  because Transformer Engine has its own only from 2.1 on. Rows of the launcher of 2023 have the unfused loss. The error
  of the launcher's rows fell from 26.7 to 10.0 %. It is 2.6 % with the selective recomputation of the
  configuration of spring 2023, without which they do not fit. The error of the documentation's rows of 24.07 fell from
  8.3 to 7.8.
- NeMo's documented rows of 24.03 to 24.07 have FlashAttention 2. The launcher of 24.03.01 turned cuDNN's attention
  off, and NeMo-Framework-Launcher#422 turned it on again in August 2024. This was found after the errors of its long
  contexts were seen. The error of nine rows of pretraining fell from 7.4 to 3.4 %. That of three fine-tuned rows
  changed from 9.6 to 10.1, that of three LoRA rows from 2.1 to 3.6.
- llm-foundry's rows on H100 that do not name the attention kernel are estimated with FlashAttention 1.
- NeMo Automodel's rows without an expert-parallel degree have that of its benchmark configurations: all ranks. They
  have its other settings, too: states and loss in 16 bits, norms of Transformer Engine, gradients reduced once a step,
  and full recomputation for Qwen3-30B. Without these, none of the three plans fits its device; now all do. The mean
  error of their times rose from 8.0 to 13.1 %, because the step with recomputation is 20 % too slow.
- Eleven of the 1582 steps did not fit their device by ett's estimate, so the causes were looked up; now all fit.
  Three had other plans than their table prints, by the recipes of Megatron-Bridge: Llama 3 70B on GB300 in release
  26.02.01, and gpt-oss on H100. These recipes also recompute norms and activations of gpt-oss on H100, B200 and GB200.
  Megatron-LM overlaps tensor-parallel communication only with sequence parallelism (arguments.py). Apex's optimizer of
  NeMo 1 stores 10 bytes a parameter, and 4 in the launcher's fine-tuning and Nemotron 340B (`optim.dtype: bf16`).
  MaxText's 52B on TPU v4 has 52 billion parameters only with the older defaults of base.yml, and its steps follow from
  them. The mean error of the 18 steps whose estimate or time changed fell from 13.4 to 10.1 %.
- Megatron-LM with Transformer Engine accumulates gradients inside the weight products, its default. Such products read
  and write the gradients. At first this took no time in the estimates. SimuMax's measured products, which show that it
  does, were found in a search for the cause of the large factor of its steps on B200. This explains a small part of the
  factor. The products reach 1000 to 1150 TFLOP/s in bf16 on SimuMax's machine, and 1250 to 1350 in the sustained table.
  One factor is fitted to rows of that machine and of faster ones.
- Qwen3 has norms of queries and keys. gpt-oss clamps the inputs of its activation and scales its rotations (YaRN).
  Megatron runs both as separate kernels (fused_bias_geglu.py, rope_utils.py). If a step is one graph, the clamps are
  not counted as a kernel. The loss is Megatron-LM's native one, as the recipe says (gpt_oss.py). It was looked up
  because the rows were too fast; it removes 0.9 points of their mean error. The clamps' passes and the experts' biases,
  counted from the code, remove 1.5 more. The rest (13 % in the mean) is unexplained. Two effects are not modelled: the
  host waits in each layer (`torch.tensor` of the clamp's offset), and graphs of the whole step pad buffers to 1.5 times
  the tokens. The source marks two rows, of release 26.06.01, as a regression. They take 1.6 times as long as the
  releases before and after.
- nanotron's rows have the stages of its code, which divides products instead of layers: 11 and 5 of 16 layers. Their
  memory is that of the first rank, in units of 2^30, with 16-bit gradients beside those in fp32. This was looked up
  after the errors of memory had been seen: 19.6 %, bias -14.7; now 7.8 and -1.3.
- torchtune's rows have the techniques that its table adds one by one: compiled kernels, a loss in chunks (estimated as
  compiled), offloaded activations. Their memory is in units of 2^30. Gradients of a single micro-batch take the memory
  of freed activations. The error of memory fell from 59.4 to 5.4 %. The optimizer step inside the backward pass, which
  frees gradients, is not modelled.
- HybridEP reaches 0.75 of the links inside a node or NVLink domain (DeepEP, docs/README_Hybrid-EP.md, kernels alone).
- Grouped kernels of all experts have a fitted factor on GPUs (prior 1.1), and measured ones on TPUs.
- Two rows of Llama 3.1 8B on eight B300 seem to have each other's precision. The row of fp8 takes 0.394 s; another
  submitter's row of nvfp4 takes 0.406 s. The row of nvfp4 takes 0.551 s; the other row of fp8 takes 0.548 s. The note
  of the first says that copies of its configuration differ in FP4. So its precision is unknown; nvfp4, the one with
  fewer bits, is assumed (with fp8 its error was 43 %). The second row is unchanged, 27 % too fast.
- TPUs first had H200's share of the peak rate, and its fall with duration. Rows of grade B were up to 42 % too slow,
  and those of the literature up to 67 %. After these errors had been seen, public measurements of products, links and
  copies of rows were looked up. v4 and v5p use v5e's share. Two measurements of v6e (79 and 87 %) differ; the
  products of a profiled step agree with the first. Products of v7x reach 83 % in Google's benchmark, which raises the
  clock, and 94 % in another. A third benchmark, at the default clock, reaches 77 %; ett uses it.
- Factors of products, attention and experts on TPUs were fitted to steps until November 2026. Without their source all
  A rows were too fast: v6e by 9, v5p by 12, v7x by 18 %. Then profiles of kernels were looked up: of one step on v6e
  and one on v7x, and attention alone on v5p (in_step.lua, kernels/splash.lua). They replace the fitted factors. What
  the recipes store and offload was read from their scripts. Then steps on v6e were 3 % too fast, v5p 6, v7x 9. The only
  row of v5p (Llama 4 Maverick) is 16 % too fast since products are stored after the sum over tensor ranks. Then passes
  of MaxText over mixtures and latent attention were counted from its code (moe.py, attention_mla.py). The error of v7x
  fell from 9.5 to 7.4 %. Twelve steps of Hunyuan 3 on v7x outside these rows were 20 to 31 % too fast, and are 18 to
  29. They lack time that does not depend on the tokens. Mixtures on v7x are still 6 to 12 % too fast, for a reason
  that is not known. Two profiles of other programs on v7x give hints. In
  jax-gpt's step of DeepSeek-V3 a forward pass of the projections of latent attention takes 1.8 s, estimated 0.3 s
  (iter6_checkpoint_bisection.md). In a step of Hunyuan 3 295B, products and kernels reach 527 TFLOP/s a device
  (yangwhale/gpu-tpu-pedia, TUNING-v7.md, 2.5). Products alone reach 885. In an earlier profile of that model on few
  chips, waits for gathers take 42 % of a step and collectives without overlap 15 % (TUNING-v7.en.md, 2.2). That run
  lacks the scheduler flags of the recipes, so it gives no value for their steps.
- Reduce-scatters of sharded gradients on TPU v6e overlap nothing, and reach 0.545 of the links. Both come from profiles
  of Qwen3-8B (clusters/tpu_v6e.lua). They were looked up after the errors had been seen: steps of Llama on v6e lacked
  about 20 ms for each billion parameters. The mean error of twelve steps on v6e fell from 4.7 to 2.6 %, that of dense
  models from 4.3 to 1.8 %. Four steps that are not among these rows were 13 to 23 % too fast, and are 5 to 16 % too
  fast now. Slices of less than 256 chips had the wrong shape in these estimates (8 chips as a line), which is
  corrected. Gathers are not changed: MaxText's step in that profile spends 50 ms in them and waits 9 ms for others.
  The estimate exposes 14 ms.
- v4, v5e and v5p have no measured time of a reduce-scatter, so theirs still overlap. On v4 XLA does not overlap them
  either (ultrons/jax-gpt, dsv3/mini_chunk_repro/FINDINGS.md). With v6e's share their steps would be slower: v5e 64B
  on one slice 12 instead of 3 % too slow, v5p 512B 13 to 18 instead of 6 to 10. The rates of their products are
  assumed, so these errors do not decide it. Recipes of v7x let the SparseCores reduce (tpu-recipes,
  xla_tpu_enable_sparse_core_collective_offload_reduce_scatter), so theirs overlap, too.
- Attention on AMD has the rates that AMD prints for AITER's kernels on MI300X and MI355X. The factor in a step is that
  of one profile on MI355X. They replace the laws of H200 with a factor of 1.7. In six MLPerf rows of grade B, which
  state almost no plan, the errors changed: MI350X from 5 to 15 %, MI355X from 21 to 17 %. MI350X is now as much slower
  than MI355X as measured (20 %, measured 23 %; 6 % before).
- Nine steps on AMD were collected before ett had estimated them: MLPerf's Llama 2 70B with LoRA, Qwen3-30B of Primus,
  and DeepSeek-V3 16B of torchtitan. The mean error was 13.8 %. Then causes were looked up: kernels of experts, forced
  balance, and partial recomputation. Now it is 4.1 %. Ten more steps of Primus were collected afterwards: DeepSeek-V3,
  Qwen3-30B and GPT-OSS 20B. Their mean error was 16.0 % by the ett before these changes. It is 5.9 % now, after
  another two causes: launches of experts, and the rate of DeepEP's kernels on AMD.
- AMD's tables of fp8 products contain no casts, so casts are counted in addition. This was found after the
  literature's fp8 rows of MI300X had been seen 28 to 56 % too fast. With Composable Kernel's attention, as their
  software of October 2024 has, they are 14 to 30 % too fast. The software had slower casts, too. Products of fp8
  are not the cause. hipBLASLt reaches 955 to 1160 TFLOP/s with random numbers (Azure's AI benchmarking guide); the
  estimates are 840 to 1200.
- The regret of vTrain's plans over several nodes comes from one set. The chosen plan, tp 4 and dp 32, is 4.5 % slower
  than the best, tp 8 and dp 32. The estimates of rows whose data-parallel groups have two or four ranks in a node are
  0.1 to 1.6 s too short. To explain this, gradients would have to move at 25 to 44 GB/s a node. Groups of one or
  eight ranks reach the 85 of the links. Steps on Selene (SC21, two and four ranks in a node) show no such loss: 2.0 %
  too slow to 0.3 % too fast. No other source shows it either, so no rule is fitted. The plan's estimate is 9.1 s,
  that of the best 10.0 s. Their intervals are 7.7 to 10.7 and 7.6 to 12.4 s. If its time were right, a third plan
  would be chosen, which takes 9 % longer than the best. Only its micro-batch differs from the best: 16 sequences
  instead of 8.
- The errors of vTrain's rows over several nodes depend on the layout, in no order. These are medians, without rows of
  tp 4 and 8 whose micro-batch of 2 or 64 sequences is 26 to 47 % too fast. With 3.6 billion parameters and one stage,
  tp 1, 2, 4, 8 and 16: +1, -4, -7, +4 and +6 %. With 18.4 billion parameters and tp 8, stages 1, 2 and 4: +1, 0 and
  -3 %. The four rows of eight stages have tp 1, 2 and 8 and are 7 to 10 % too slow. The head is not the only cause:
  without it they would be 2 to 5 % too slow. The source's simulator recomputes no layer of the last stage
  (predictor.py). DeepSpeed's engine has no such exception (pipe/module.py, forward). Two of the plans are in SC21's
  table, too: tp 2 and dp 32, tp 8 and dp 32. From eight cards a node to four, and from Megatron-LM to DeepSpeed, the
  measured steps grow by 0.24 and 0.20 s, the estimates by 0.15 and 0.52 s.
- A model without error might not choose better plans. Rows of one layout that differ in their micro-batch scatter about
  the median error of their layout: half by less than 1.6 %, the largest by 93 %. Draws of this scatter around exact
  times (spec/bench/support/regret_noise.lua) give the regret of a model that knows these times. It is above 1.5 % in
  43 % of the draws, above 1 % in half of them. 92.5 % of the pairs are then in the right order. Without the three
  largest deviations these figures are 34 %, 45 % and 97.8 %. No plan is measured twice.
- Products on Ampere and the share of streaming kernels keep their textbook values (1.13 and 0.80). The fitted 1.16 and
  0.77 made rows of unfused Megatron too slow.
- Some groups of rows have an unexplained error, after a third search for causes in code or hardware. MT-NLG 530B: its
  three rows differ only in replicas, and so in micro-batches. A line through them has 0.197 s for a micro-batch and
  6.0 s besides; the estimates have 0.185 and 0.6 s. SC21's step of a model of that size is 1 % too fast. BLOOM's
  candidates at tp 8: estimates of micro-batches of two and of four sequences are 7 to 11 ms a layer too short (one
  row: 2 ms). The row of tp 1 does not tell whether it is so there. Its last stage, with a head of 250,880 tokens,
  takes 1.6 times as long as a middle one. `CUDA_LAUNCH_BLOCKING` is not the cause: its cost was measured in that run.
  Two rows of Llama 3.1 8B on H100 over Ethernet: the estimates are the same 0.13 s a step too short at every tp.
  Releases of April and May 2025 in fp8 on GB200: 7 to 14 % too fast, while bf16 fits. torchtitan with 4 and 8 context
  ranks: attention takes 1.5 times the time of 1 and 2 ranks, although its code balances the load. fms-fsdp:
  its printed utilisations imply that 41 and 81 % of the layers are recomputed on A100, 19 and 58 % on H100. The
  estimates have half. On A100 the estimated passes alone, without a message, would take 3 and 9 % longer than the
  measured steps. The H100 rows have the cluster of the authors' later post: 464 GPUs, 3.2 Tbit/s a node. The README has
  96 GPUs and 800 Gbit/s. This was looked up after the errors were seen; their mean fell from 13.5 to 4.8 %. On A100,
  NCCL runs two channels for each network card (ncclTopoPostset in graph/connect.cc doubles those of the search). So
  four cards occupy half as many multiprocessors as eight. A share of communication by channels was tried: fms-fsdp's
  error on A100 would fall by 9 points. But both sources that state four cards of 100 Gbit/s and share weights or states
  would become worse: InternEvo 8.9 instead of 6.6 %, BloombergGPT 5.7 instead of 0.7 %. So it is not modelled.
- Rows that drop tokens have a capacity factor of 1. The estimate drops none, because its experts are balanced.
- The constants of a search's probabilities are maximum-likelihood estimates; sources are weighted by the square root of
  their pairs. Both plans of a pair have the same number of GPUs and the same batch. Some twenty variants were tried:
  four distributions, likelihood or calibration, with and without weights, wider grids. Ten structural forms
  (which fields differ, weights for parts of the step, shares by operator) were no better. All tenths are within 8
  points now; the largest difference is 6.5. If the stated chances were exact, this would be so in 27 % of such samples.
- The half-widths of a step's interval beyond the kernels' own were chosen from errors of left-out sources. If they are
  chosen on half of the sources, they cover 88 % of the other half's steps. Afterwards that of experts was lowered from
  0.5 to 0.42.
- Steps are slower than estimated more often than faster, so intervals reach further up than down. The two factors are
  fitted with equal weight for every source. With these weights 89 % of the steps lie inside, and 84 % with equal
  widths. The width of plans that name no software is fitted on the same steps, estimated without naming it
  (spec/bench/support/fit_interval.lua). Software that was not compared on one of these generations has the same width.
  Estimated with stacks of other software (fit_other_software.lua), steps need 0.14 instead of the fitted 0.19.
]]

local memory = [[
## Memory

Every row that states its memory, of any grade, by what its source read: the peak of PyTorch's allocator, its reserved
memory, or the memory used on the device. `peak` is not specified further. nanotron's is compared with the reserved
memory, torchtune's with the allocator's peak. A `figure` has the states and activations of layers.

| | rows | error | median | bias | worst |
|---|---|---|---|---|---|]]

-- The table of memory, and the plans that ran although ett estimates that they do not fit.
local function add_memory(out, results)
  out[#out + 1] = memory
  for _, g in ipairs(results.memory) do
    out[#out + 1] = ("| %s | %d | %.1f %% | %.1f %% | %+.1f %% | %+.1f %% |"):format(g.name, g.rows, g.mape_percent,
      g.median_percent, g.bias_percent, g.worst_percent)
  end
  local stated, open = results.unfit.stated, results.unfit["not stated"]
  out[#out + 1] = ("\nAll steps of the rows ran. By ett's estimate, %d of %d plans that state their recomputation do "
    .. "not fit their\ndevice, and %d of %d that do not state it. Most of these are estimated without it.\n"):format(
    #stated.ids, stated.rows, #open.ids, open.rows)
end

local function line(f)
  if f.answered == 0 then return ("| %s | 0 of %d | | | | | |"):format(f.name, f.rows) end
  return ("| %s | %d of %d | %.1f %% | %.1f %% | %+.1f %% | %.0f %% | %.1f %% |"):format(f.name, f.answered, f.rows,
    f.mape_percent, f.median_percent, f.bias_percent, f.coverage_percent, f.half_width_percent)
end

local function command(text)
  local pipe = io.popen(text .. " 2>/dev/null")
  local answer = pipe and pipe:read "l"
  if pipe then pipe:close() end
  return answer
end

local head = "| | answered | error | median | bias | inside | half-width |\n|---|---|---|---|---|---|---|"

--- Writes the page of bench.results.
---@param asked table[] groups of ett bench literature
function page.write(path, results, asked)
  local out = { intro:format(os.date "!%Y-%m-%d", command "git rev-parse --short HEAD" or "unknown") }
  for _, title in ipairs(titles) do
    out[#out + 1] = ("## %s\n\n%s"):format(title[2], head)
    for _, f in ipairs(results.groups) do
      if f.kind == title[1] then out[#out + 1] = line(f) end
    end
    out[#out + 1] = ""
  end
  out[#out + 1] = planner .. head
  for _, f in ipairs(asked) do out[#out + 1] = line(f) end
  out[#out + 1] = ""
  add_memory(out, results)
  out[#out + 1] = "## Decisions\n\nPairs of vTrain's plans of one model and GPU count that differ by more than 2 %.\n"
  for _, name in ipairs { "multi", "single" } do
    local d = results.decisions[name]
    if d then
      out[#out + 1] = ("- %s-node: %.1f %% of %d pairs in the right order, regret %.1f %% over %d sets."):format(name,
        d.right_percent, d.pairs, d.regret_percent, d.sets)
    end
  end
  out[#out + 1] = "\n## Refused\n"
  for _, reason in ipairs(require("ett.base.schema").keys(results.refused)) do
    out[#out + 1] = ("- %d: %s"):format(results.refused[reason], reason)
  end
  if next(results.refused) == nil then out[#out + 1] = "None." end
  out[#out + 1] = "\n" .. judgements
  local file = assert(io.open(path, "w"))
  file:write((table.concat(out, "\n"):gsub("\n\n\n+", "\n\n")))
  file:close()
end

return page
