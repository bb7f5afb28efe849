"""What `kernel` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="kernel",
            help="Time of one operator on one GPU.",
        ),
        Command(
            name="kernel gemm",
            help="Time of a GEMM, (m, k) x (k, n).",
            run="command:gemm",
            example="kernel gemm --system h200_sxm --m 64 --n 8192 --k 8192 --format bf16",
            table="answer:gemm_table",
            lists=True,
            page="blocks:operator_page",
        ),
        Command(
            name="kernel attention",
            help="Time of the attention of one layer.",
            run="command:attention",
            example=(
                "kernel attention --system h200_sxm --phase decode --batch 64 --kv-len 4096 "
                "--num-heads 8 --num-kv-heads 1 --head-dim 128"
            ),
            table="answer:attention_table",
            lists=True,
            page="blocks:operator_page",
        ),
        Command(
            name="kernel moe",
            help="Time of the expert GEMMs of one MoE layer.",
            run="command:moe",
            example=(
                "kernel moe --system h200_sxm --tokens 64 --hidden 4096 --intermediate 1536 "
                "--experts 128 --top-k 8 --format fp8_block"
            ),
            table="answer:moe_table",
            lists=True,
            page="blocks:operator_page",
        ),
        Command(
            name="kernel op",
            help="Time of one operator: of networks, of analytics or of scientific computing.",
        ),
        Command(
            name="kernel op conv",
            help="Time of a convolution of images, as an implicit GEMM.",
            run="command:conv",
            example=(
                "kernel op conv --system h200_sxm --batch 64 --channels 256 --height 56 --width 56 "
                "--filters 256 --kernel 3"
            ),
            table="answer:conv_table",
            lists=True,
        ),
        *(
            Command(
                name=f"kernel op {name}",
                help=f"Time of {text}.",
                run=f"command:{name}",
                example=f"kernel op {words} --system h200_sxm --tokens 4096 --width 8192",
                table=f"answer:{name}_table",
                lists=True,
                page="blocks:operator_page",
            )
            for name, words, text in (
                ("norm", "norm", "an RMS, layer, group or batch norm"),
                ("softmax", "softmax", "a softmax over rows"),
                ("embedding", "embedding", "an embedding lookup, or a bag of lookups"),
                (
                    *("elementwise", "elementwise activation"),
                    "an activation, rotary embedding, quantization or sampling",
                ),
            )
        ),
        *(
            Command(
                name=f"kernel op {name}",
                help=f"Time of {text}.",
                run="command:op_filter" if name == "filter" else f"command:{name}",
                example=f"kernel op {name} --system h200_sxm {words}",
                table=f"answer:{name}_table",
                lists=True,
                page="blocks:operator_page",
            )
            for name, words, text in (
                ("sort", "--rows 100M --value-bytes 4", "a radix or merge sort"),
                ("scan", "--rows 100M", "a prefix sum"),
                ("reduce", "--rows 100M", "a reduction to one value"),
                ("histogram", "--rows 100M", "a histogram"),
                ("filter", "--rows 100M --selectivity 0.1", "a filter of values"),
                ("join", "--rows 100M --build-rows 10M", "an inner hash join of two tables"),
                ("group_by", "--rows 100M --groups 1000", "a hash aggregation"),
                (
                    *("spmv", "--rows 16M --nonzeros 200M"),
                    "a sparse matrix-vector product, in CSR",
                ),
                ("stencil", "--width 512 --height 512 --depth 512", "a star stencil on a grid"),
                ("fft", "--width 1024 --batch 100K", "Fourier transforms of up to 3 dimensions"),
                ("solve", "--n 64 --batch 100K", "LU or Cholesky solutions of many systems"),
            )
        ),
        Command(
            name="kernel design",
            help=(
                "Time of a kernel under design, from the pipeline of its tiles; all-reduce and"
                " dispatch kernels: perfatlas collective."
            ),
        ),
        Command(
            name="kernel design attention",
            help="Time of an attention kernel with a given tile.",
            run="command:design_attention",
            row="design:kernel_design_attention",
            page="blocks:design_page",
            example=(
                "kernel design attention --system h100_sxm --batch 4 --kv-len 4096 --num-heads 16 "
                "--head-dim 128 --tile-m 128 --tile-n 128"
            ),
        ),
        Command(
            name="kernel design gemm",
            help="Time of a GEMM kernel with a given tile.",
            run="command:design_gemm",
            row="design:kernel_design_gemm",
            page="blocks:design_page",
            example=(
                "kernel design gemm --system h100_sxm --m 4096 --n 7168 --k 2048 "
                "--format fp8_block --tile-m 128 --tile-n 128"
            ),
        ),
    ),
    functions=(
        "kernel_attention",
        "kernel_design_attention",
        "kernel_design_gemm",
        "kernel_gemm",
        "kernel_moe",
        "kernel_op",
    ),
)
