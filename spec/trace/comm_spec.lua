local comm = require "ett.trace.comm"

describe("ett.trace.comm", function()
  it("classifies the kernels of libraries as communication, and no others", function()
    local yes = {
      "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
      "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
      "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
      "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
      "void deep_ep::internode::dispatch<true, 4, false, 8192>(int4*)",
      "void tensorrt_llm::kernels::twoShotAllReduceKernel<half, 8>(tensorrt_llm::kernels::AllReduceParams)",
      "mscclpp::executionKernel(void)", "nvshmemi_barrier_kernel", "hcom_allReduce_", "msccl::mscclKernel_Sum_half",
    }
    local no = {
      "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(at::native::ReduceOp<float>)",
      "splitKreduce_kernel", "void cub::DeviceReduceKernel<float>", "multiply_reduce_fusion", "softmax_warp_forward",
      "void at::native::vectorized_gather_kernel<16, long>(char*)", "scatter_gather_elementwise",
      "reduce_sum-dtype_Float",
      "Memcpy DtoD (Device -> Device)", "void broadcast_add_kernel<float>(float*)",
      -- Kernels of these libraries that stay on one device, and others with such words.
      "hybrid_ep::scan<256, 32>(bool*)", "EpDispatchCopyToStaging_bf16", "EpCombineQuantizeInputKernel_bf16",
      "mori_ConvertDispatchOutputKernel(ConvertDispatchOutputArgs)", "moeA2APrepareDispatchKernel(int*, int*)",
      "void aiter::local_device_load_rmsnorm_512n<half>()", "void flash::flash_fwd_splitkv_combine_kernel<float>()",
      "void oneccl_allreduce_counter_pcie<half>", "triton_red_fused_all_reduce_add_0",
      "flashinfer::trtllm_mnnvl_allreduce::rmsNormLamport<__nv_bfloat16>()", "void flux::a2a_transpose_gemm()",
    }
    for _, name in ipairs(yes) do assert.is_truthy(comm.library_of(name), name) end
    for _, name in ipairs(no) do assert.is_nil(comm.library_of(name), name) end
  end)

  it("finds the libraries of --path, not those of the current folder", function()
    local lfs, find = require "lfs", require "ett.base.find"
    local folder, home = require("command").folder(), lfs.currentdir()
    require("ett.base.folder").write_with_folder(folder .. "/lua/ett/trace/communication/mine.lua",
      'return { name = "mine", patterns = { "^my_ring" } }\n')
    lfs.chdir(folder)
    package.loaded["ett.trace.comm"] = nil
    assert.is_nil(require("ett.trace.comm").library_of("my_ring_kernel"))
    lfs.chdir(home)
    find.set_folders { folder }
    package.loaded["ett.trace.comm"] = nil
    local library = require("ett.trace.comm").library_of("my_ring_kernel")
    find.set_folders(nil)
    package.loaded["ett.trace.comm"] = comm
    os.execute(("rm -rf '%s'"):format(folder))
    assert.equal("mine", library.name)
    assert.is_nil(comm.library_of("my_ring_kernel"))
  end)

  it("reads the kind from arguments, annotations, kernels and opcodes", function()
    for text, kind in pairs{
      allreduce = "all_reduce", _allgather_base = "all_gather", ["nccl:_reduce_scatter_base"] = "reduce_scatter",
      ["nccl:all_to_all"] = "all_to_all", ["all-reduce"] = "all_reduce", ["collective-permute"] = "send_recv",
      alltoall_base = "all_to_all", broadcast = "broadcast", ["nccl:reduce"] = "reduce", ["nccl:send 0->1"] = "send",
      allgather_into_tensor_coalesced = "all_gather", reduce_scatter_tensor_coalesced = "reduce_scatter",
    } do
      assert.equal(kind, comm.kind_of(text), text)
    end
    assert.is_nil(comm.kind_of("gemm"))
    assert.equal("send_recv", comm.kernel_type("ncclDevKernel_SendRecv(ncclDevComm*, unsigned long, ncclWork*)"))
    assert.equal("all_to_all", comm.kernel_type("void deep_ep::intranode::combine<__nv_bfloat16>(int)"))
    assert.equal("all_reduce", comm.kernel_type("void vllm::cross_device_reduce_2stage<half, 8>()"))
    assert.equal("other", comm.kernel_type("ncclKernel_Unheard"))
    for name, kind in pairs{
      ["c10d::symmetric_memory::barrier_kernel(unsigned int**, int, int, int, unsigned long)"] = "barrier",
      ["c10d::symmetric_memory::put_signal_kernel(unsigned int**, int, int, int)"] = "send",
      ["c10d::symmetric_memory::wait_signal_kernel(unsigned int**, int, int, int)"] = "recv",
      ["void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<8, half>()"] = "all_reduce",
      ["void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<(unsigned char)4, half>()"] = "all_reduce",
      ["void tensorrt_llm::kernels::mnnvl::twoshot_allreduce_kernel<8, float>(float*)"] = "all_reduce",
      ["tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<8>(int const*)"] = "all_to_all",
      ["tensorrt_llm::kernels::moe_comm::moeA2ACombineKernel<8>(int const*)"] = "all_to_all",
      ["void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>(mori::moe::EpDispatchCombineArgs)"] = "all_to_all",
      ["EpCombineInterNodeV1KernelLowLatency_bf16"] = "all_to_all", ["EpCombineSyncBarrier_bf16"] = "barrier",
      ["void hybrid_ep::dispatch_kernel<half>(hybrid_ep::dispatch_kernel_param_t<half>)"] = "all_to_all",
      ["void hybrid_ep::combine_kernel<8>()"] = "all_to_all", ["hybrid_ep::device_sync_kernel<8>"] = "barrier",
      ["kuserbuffers_pushsend(int*, int*, int4*, int4*, int)"] = "send", ["kuserbuffers_pushrecv(int, int)"] = "recv",
      ["void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>(int)"] = "reduce_scatter",
      ["void userbuffers_fp16_sum_inplace_gpu_mc_ag<8>(int)"] = "all_gather",
      ["void userbuffers_fp16_sum_inplace_gpu_mc<8>(int)"] = "all_reduce",
      ["kuserbuffers_pushsendrecv(int*, int*, int4*)"] = "send_recv",
      ["void a2a_dispatch_send_kernel<true, 16>()"] = "all_to_all", ["a2a_combine_recv_kernel"] = "all_to_all",
      ["void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>(aiter::RankData*)"] = "reduce_scatter",
      ["oneccl_allreduce_pcie<half, Rt64_128_PCIE, RingTransmit>"] = "all_reduce",
      ["oneccl_allgatherv_pcie<half>"] = "all_gather",
    } do
      assert.is_truthy(comm.library_of(name), name)
      assert.equal(kind, comm.kernel_type(name), name)
    end
    assert.is_table(comm.words()) -- each pattern has a word, so names are searched quickly
  end)

  it("reads opcodes and shapes of HLO text, not names", function()
    assert.equal("all-reduce",
      comm.opcode("%psum.896 = bf16[1024,5120]{1,0:T(8,128)(2,1)S(1)} all-reduce(bf16[1024] %x)"))
    assert.equal("fusion",
      comm.opcode("%multiply_reduce_fusion.1 = f32[1024]{0} fusion(bf16[8] %all-reduce.7), kind=kLoop"))
    assert.equal("all-gather-start",
      comm.opcode("%ag = (bf16[8]{0}, bf16[16]{0:T(8)}) all-gather-start(bf16[8]{0} %p), channel_id=1"))
    assert.is_true(comm.is_tpu_opcode("all-reduce"))
    assert.is_true(comm.is_tpu_opcode("reduce-scatter"))
    assert.is_false(comm.is_tpu_opcode("reduce"))
    assert.is_false(comm.is_tpu_opcode("reduce-window"))
    assert.is_false(comm.is_tpu_opcode("loop fusion"))
    assert.equal(10485760, comm.shape_bytes("bf16[1024,5120]{1,0:T(8,128)(2,1)S(1)}"))
    assert.equal(4 * 6 + 2, comm.shape_bytes("(f32[2,3]{1,0}, bf16[])"))
    assert.is_nil(comm.shape_bytes("token"))
    assert.equal(2, comm.replica_group_size("all-reduce(...), replica_groups=[1,2]<=[2], x"))
    assert.equal(4, comm.replica_group_size("replica_groups={{0,1,2,3},{4,5,6,7}}"))
  end)

  it("counts elements of Input Dims", function()
    assert.equal(4 * 2048 * 4096.0, comm.elements("[[4,2048,4096]]"))
    assert.equal(8200.0, comm.elements("[[[4, 2048], [8]], []]"))
    assert.is_nil(comm.elements("[[], []]"))
  end)

  it("follows nccl-tests for bytes and bandwidth", function()
    assert.equal(400, comm.message_bytes("all_reduce", 100, 100, "Float", 8))
    assert.equal(1600, comm.message_bytes("all_gather", 100, nil, "BFloat16", 8))
    assert.equal(1600, comm.message_bytes("all_gather", 100, 800, "BFloat16", 8))
    assert.equal(1600, comm.message_bytes("reduce_scatter", 800, 100, "c10::Half", 8))
    -- PyTorch records a gather's elements as those of one rank in and of all ranks out; a scatter is the reverse.
    assert.same({ 3200, 3200, 3200 }, { comm.message_bytes("gather", 100, 800, "Float", 8),
      comm.message_bytes("gather", 100, nil, "Float", 8), comm.message_bytes("scatter", 800, 100, "Float", 8) })
    assert.same({ 0.875, 0.875 }, { comm.bus_factor("gather", 8), comm.bus_factor("scatter", 8) })
    assert.is_nil(comm.ring("gather", 8))
    assert.is_nil(comm.message_bytes("all_reduce", 100, 100, "Mystery", 8))
    assert.is_nil(comm.message_bytes("all_reduce", nil, nil, "Float", 8))
    assert.equal(1.75, comm.bus_factor("all_reduce", 8))
    assert.equal(0.875, comm.bus_factor("all_gather", 8))
    assert.equal(1, comm.bus_factor("broadcast", 8))
    assert.is_nil(comm.bus_factor("all_reduce", nil))
    assert.is_nil(comm.bus_factor("barrier", 8))
    local steps, volume = comm.ring("all_reduce", 4)
    assert.equal(6, steps)
    assert.equal(1.5, volume)
  end)

  it("has a name, a summary, a source and patterns for every library", function()
    local seen = {}
    for _, library in ipairs(comm.libraries()) do
      for _, field in ipairs{ "name", "summary", "source" } do assert.is_string(library[field]) end
      seen[library.name] = true
    end
    for _, name in ipairs{ "nccl", "rccl", "hccl", "deepep", "nvshmem", "mscclpp", "vllm", "tensorrt_llm",
      "symmetric_memory" } do
      assert.is_true(seen[name], name)
    end
  end)
end)
