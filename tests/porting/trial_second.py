"""A second trial of `funcnet port`, on classes that were chosen without a look at the tool."""

from __future__ import annotations

from tests.porting.published import Model

__all__ = ["CLASSES"]

CLASSES = {
    'bd_eegconformer': Model(
        'braindecode', 'braindecode/models/eegconformer.py', 'EEGConformer',
        'EEGConformer(n_outputs=3, n_chans=4, n_filters_time=8, filter_time_length=5, pool_time_length=10, '
        'pool_time_stride=5, num_layers=2, num_heads=2, n_times=64)',
        'torch.randn(2, 4, 64)',
    ),
    'esm2': Model(
        'fair-esm', 'esm/model/esm2.py', 'ESM2',
        'ESM2(num_layers=2, embed_dim=16, attention_heads=2)',
        'dict(tokens=torch.tensor([[0, 5, 6, 32, 8, 9, 2], [0, 7, 4, 10, 2, 1, 1]]), repr_layers=[0, 2], '
        'return_contacts=True)',
    ),
    'esm_msa': Model(
        'fair-esm', 'esm/model/msa_transformer.py', 'MSATransformer',
        "MSATransformer(__import__('types').SimpleNamespace(embed_dim=16, ffn_embed_dim=32, attention_heads=2, "
        'layers=2, dropout=0.1, attention_dropout=0.1, activation_dropout=0.1, max_tokens=2 ** 14, '
        'max_positions=64, embed_positions_msa=True, logit_bias=True), '
        "__import__('esm').data.Alphabet.from_architecture('MSA Transformer'))",
        'torch.randint(4, 24, (2, 3, 9))',
    ),
    'facenet': Model(
        'facenet-pytorch', 'facenet_pytorch/models/inception_resnet_v1.py', 'InceptionResnetV1',
        'InceptionResnetV1(classify=True, num_classes=5)',
        'torch.randn(2, 3, 96, 96)',
    ),
    'htdemucs': Model(
        'demucs', 'demucs/htdemucs.py', 'HTDemucs',
        "HTDemucs(['drums', 'bass'], audio_channels=1, channels=8, nfft=256, depth=2, t_layers=2, t_heads=2, "
        't_dropout=0.1, samplerate=2000, segment=1, norm_groups=2, dconv_comp=4)',
        'torch.randn(2, 1, 2000)',
    ),
    'vocos_backbone': Model(
        'vocos', 'vocos/models.py', 'VocosBackbone',
        'VocosBackbone(8, 16, 24, 2, adanorm_num_embeddings=4)',
        'dict(x=torch.randn(2, 8, 13), bandwidth_id=torch.tensor([1]))',
    ),
    'asteroid_dprnn': Model(
        'asteroid', 'asteroid/masknn/recurrent.py', 'DPRNN',
        "DPRNN(8, 2, bn_chan=6, hid_size=8, chunk_size=10, n_repeats=2, norm_type='gLN', mask_act='sigmoid', "
        'use_mulcat=True, dropout=0)',
        'torch.randn(2, 8, 43)',
    ),
    'snac': Model(
        'snac', 'snac/snac.py', 'SNAC',
        'SNAC(sampling_rate=8000, encoder_dim=16, encoder_rates=[2, 4], decoder_dim=64, decoder_rates=[4, 2], '
        'attn_window_size=4, codebook_size=16, codebook_dim=4, vq_strides=[4, 2, 1], noise=False)',
        'torch.randn(2, 1, 120)',
    ),
    'egnn': Model(
        'egnn-pytorch', 'egnn_pytorch/egnn_pytorch.py', 'EGNN_Network',
        'EGNN_Network(depth=2, dim=8, num_tokens=7, num_positions=10, num_nearest_neighbors=4, edge_dim=3, '
        'norm_coors=True, coor_weights_clamp_value=2.0, global_linear_attn_every=2, global_linear_attn_heads=2, '
        'global_linear_attn_dim_head=4)',
        'dict(feats=torch.randint(0, 7, (2, 10)), coors=torch.randn(2, 10, 3), edges=torch.randn(2, 10, 10, 3), '
        'mask=torch.tensor([[True] * 10, [True] * 7 + [False] * 3]))',
    ),
    'tabnet': Model(
        'pytorch-tabnet', 'pytorch_tabnet/tab_network.py', 'TabNet',
        'TabNet(6, 3, n_d=4, n_a=4, n_steps=2, cat_idxs=[1, 3], cat_dims=[4, 5], cat_emb_dim=[2, 2], '
        "virtual_batch_size=4, mask_type='entmax', group_attention_matrix=torch.eye(6))",
        'torch.cat([torch.randn(8, 1), torch.randint(0, 4, (8, 1)), torch.randn(8, 1), torch.randint(0, 5, (8, 1)), '
        'torch.randn(8, 2)], 1)',
    ),
    'fm_xdeepfm': Model(
        'torchfm', 'torchfm/model/xdfm.py', 'ExtremeDeepFactorizationMachineModel',
        'ExtremeDeepFactorizationMachineModel([4, 5, 6], 4, (8, 8), 0.2, (6, 6))',
        'torch.tensor([[0, 1, 2], [3, 4, 5]])',
    ),
    'taming_unet': Model(
        'taming-transformers', 'taming/modules/diffusionmodules/model.py', 'Model',
        'Model(ch=32, out_ch=3, ch_mult=(1, 2), num_res_blocks=1, attn_resolutions=(8,), dropout=0.1, in_channels=3, '
        'resolution=16)',
        '(torch.randn(2, 3, 16, 16), torch.tensor([3, 40]))',
    ),
    'taming_gpt': Model(
        'taming-transformers', 'taming/modules/transformer/mingpt.py', 'GPT',
        'GPT(20, 16, n_layer=2, n_head=2, n_embd=16, embd_pdrop=0.1, resid_pdrop=0.1, attn_pdrop=0.1, n_unmasked=3)',
        'dict(idx=torch.randint(0, 20, (2, 9)), embeddings=torch.randn(2, 2, 16))',
    ),
    'sr_rdn': Model(
        'torchsr', 'torchsr/models/rdn.py', 'RDN',
        'RDN(2, 8, 2, 2, 8)',
        'torch.rand(2, 3, 12, 12)',
    ),
    'point_transformer': Model(
        'point-transformer-pytorch', 'point_transformer_pytorch/multihead_point_transformer_pytorch.py',
        'MultiheadPointTransformerLayer',
        'MultiheadPointTransformerLayer(dim=8, heads=2, dim_head=4, pos_mlp_hidden_dim=8, attn_mlp_hidden_mult=2, '
        'num_neighbors=5)',
        'dict(x=torch.randn(2, 12, 8), pos=torch.randn(2, 12, 3), mask=torch.tensor([[True] * 12, [True] * 9 + '
        '[False] * 3]))',
    ),
    'dna_resenc_unet': Model(
        'dynamic-network-architectures', 'dynamic_network_architectures/architectures/unet.py',
        'ResidualEncoderUNet',
        'ResidualEncoderUNet(1, 3, (4, 8, 8), nn.Conv3d, 3, (1, 2, (1, 2, 2)), (1, 2, 1), 2, 1, conv_bias=True, '
        'norm_op=nn.InstanceNorm3d, norm_op_kwargs=dict(eps=1e-5, affine=True), nonlin=nn.LeakyReLU, '
        'nonlin_kwargs=dict(inplace=True), deep_supervision=True)',
        'torch.randn(2, 1, 8, 16, 16)',
    ),
    'perceiver_io': Model(
        'perceiver-pytorch', 'perceiver_pytorch/perceiver_io.py', 'PerceiverIO',
        'PerceiverIO(depth=2, dim=8, queries_dim=6, logits_dim=5, num_latents=4, latent_dim=8, latent_heads=2, '
        'cross_dim_head=4, latent_dim_head=4, weight_tie_layers=True, decoder_ff=True)',
        'dict(data=torch.randn(2, 9, 8), mask=torch.tensor([[True] * 9, [True] * 5 + [False] * 4]), '
        'queries=torch.randn(3, 6))',
    ),
    'conformer': Model(
        'conformer', 'conformer/conformer.py', 'Conformer',
        'Conformer(8, depth=2, dim_head=4, heads=2, ff_mult=2, conv_kernel_size=5, attn_dropout=0.1, ff_dropout=0.1, '
        'conv_dropout=0.1)',
        'torch.randn(2, 10, 8)',
    ),
    'sam_encoder': Model(
        'segment-anything', 'segment_anything/modeling/image_encoder.py', 'ImageEncoderViT',
        'ImageEncoderViT(img_size=48, patch_size=8, embed_dim=16, depth=2, num_heads=2, mlp_ratio=2.0, out_chans=8, '
        'use_rel_pos=True, rel_pos_zero_init=False, window_size=4, global_attn_indexes=(1,))',
        'torch.randn(2, 3, 48, 48)',
    ),
    'sam_decoder': Model(
        'segment-anything', 'segment_anything/modeling/mask_decoder.py', 'MaskDecoder',
        "MaskDecoder(transformer_dim=16, transformer=__import__('segment_anything').modeling.TwoWayTransformer(2, 16, "
        '2, 24), iou_head_hidden_dim=12)',
        'dict(image_embeddings=torch.randn(1, 16, 6, 6), image_pe=torch.randn(1, 16, 6, 6), '
        'sparse_prompt_embeddings=torch.randn(2, 3, 16), dense_prompt_embeddings=torch.randn(2, 16, 6, 6), '
        'multimask_output=True)',
    ),
    'retnet': Model(
        'torchscale', 'torchscale/architecture/retnet.py', 'RetNetDecoder',
        "RetNetDecoder(__import__('torchscale.architecture.config').architecture.config.RetNetConfig(vocab_size=20, "
        'decoder_embed_dim=16, decoder_value_embed_dim=24, decoder_retention_heads=2, decoder_ffn_embed_dim=24, '
        "decoder_layers=2, dropout=0.1), embed_tokens=nn.Embedding(20, 16, padding_idx=1))",
        'torch.randint(2, 20, (2, 7))',
    ),
    'face_bisenet': Model(
        'facexlib', 'facexlib/parsing/bisenet.py', 'BiSeNet',
        'BiSeNet(5)',
        '(torch.randn(2, 3, 64, 64), True)',
    ),
    'saint': Model(
        'pytorch-widedeep', 'pytorch_widedeep/models/tabular/transformers/saint.py', 'SAINT',
        "SAINT(dict(a=0, b=1, c=2, d=3), cat_embed_input=[('a', 4), ('b', 3)], continuous_cols=['c', 'd'], "
        'input_dim=8, n_heads=2, n_blocks=1, mlp_hidden_dims=[8, 4])',
        'torch.cat([torch.randint(0, 3, (4, 2)), torch.randn(4, 2)], 1)',
    ),
    'tabm': Model(
        'tabm', 'tabm.py', 'TabM',
        'TabM(n_num_features=3, cat_cardinalities=[4, 5], d_out=2, n_blocks=2, d_block=8, dropout=0.1, k=3, '
        "arch_type='tabm', start_scaling_init='random-signs')",
        '(torch.randn(4, 3), torch.tensor([[0, 1], [2, 4], [1, 3], [3, 0]]))',
    ),
    'pfrl_atari': Model(
        'pfrl', 'pfrl/nn/atari_cnn.py', 'LargeAtariCNN',
        'LargeAtariCNN(n_input_channels=4, n_output_channels=16)',
        'torch.rand(2, 4, 84, 84)',
    ),
    'mvit': Model(
        'pytorchvideo', 'pytorchvideo/models/vision_transformers.py', 'MultiscaleVisionTransformers',
        'create_multiscale_vision_transformers(spatial_size=16, temporal_size=4, depth=2, patch_embed_dim=8, '
        'num_heads=1, embed_dim_mul=[[1, 2.0]], atten_head_mul=[[1, 2.0]], pool_q_stride_size=[[1, 1, 2, 2]], '
        'pool_kv_stride_adaptive=[1, 2, 2], pool_kvq_kernel=[3, 3, 3], droppath_rate_block=0.1, head_num_classes=5)',
        'torch.randn(2, 3, 4, 16, 16)',
    ),
    'autoint': Model(
        'deepctr-torch', 'deepctr_torch/models/autoint.py', 'AutoInt',
        "(lambda inputs: AutoInt(*[[inputs.SparseFeat('user', 5, 4), inputs.SparseFeat('item', 6, 4), "
        "inputs.DenseFeat('price', 1)]] * 2, att_layer_num=2, att_head_num=2, dnn_hidden_units=(8, 6), "
        "dnn_dropout=0.1, init_std=0.1))(__import__('deepctr_torch.inputs').inputs)",
        'torch.tensor([[0.0, 1.0, 0.3], [4.0, 5.0, -1.2]])',
    ),
    'bert_codertimo': Model(
        'bert-pytorch', 'bert_pytorch/model/bert.py', 'BERT',
        'BERT(20, hidden=16, n_layers=2, attn_heads=2)',
        '(torch.tensor([[3, 5, 6, 7, 4, 8], [3, 9, 4, 10, 0, 0]]), torch.tensor([[1, 1, 1, 1, 1, 2], [1, 1, 1, 2, 0, '
        '0]]))',
    ),
    'xlnet': Model(
        'pytorch-transformers', 'pytorch_transformers/modeling_xlnet.py', 'XLNetModel',
        'XLNetModel(XLNetConfig(30, d_model=16, n_layer=2, n_head=2, d_inner=24, mem_len=5))',
        'dict(input_ids=torch.randint(0, 30, (2, 7)), token_type_ids=torch.tensor([[0, 0, 0, 1, 1, 1, 2]] * 2), '
        'attention_mask=torch.tensor([[1.0] * 7, [0.0] * 2 + [1.0] * 5]))',
    ),
    'raft': Model(
        'pytorchcv', 'pytorchcv/models/raft.py', 'RAFT',
        'RAFT(4, 2, 8, 8, 8, [[8, 8], [12, 12], [16, 16]], 16, False, True, (16, 12), (8, 8), 20, 14, SepConvGRU, 24, '
        '8, 576, iters=3)',
        '(torch.rand(2, 3, 128, 128), torch.rand(2, 3, 128, 128))',
    ),
    'centernet': Model(
        'pytorchcv', 'pytorchcv/models/centernet.py', 'CenterNet',
        'CenterNet(nn.Sequential(*[conv3x3_block(in_channels=i, out_channels=o, stride=2) for i, o in ((3, 8), (8, 8), '
        '(8, 12), (12, 16), (16, 16))]), 16, [12, 12, 8], topk=5, '
        'in_size=(64, 64), num_classes=4)',
        'torch.randn(2, 3, 64, 64)',
    ),
    'ani': Model(
        'torchani', 'torchani/arch.py', 'ANI',
        "simple_ani(('H', 'C', 'O'), lot='wb97x-631gd', radial_shifts=4, angular_shifts=2, sections=2, "
        "repulsion=True, strategy='pyaev')",
        '((torch.tensor([[6, 1, 1, 8], [8, 1, 1, -1]]), torch.rand(2, 4, 3) * 3.0),)',
    ),
    'pg_gat': Model(
        'torch-geometric', 'torch_geometric/nn/models/basic_gnn.py', 'GAT',
        "GAT(4, 8, 2, 3, v2=True, heads=2, dropout=0.1, norm='batch_norm', jk='cat', edge_dim=3)",
        'dict(x=torch.randn(5, 4), edge_index=torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]]), '
        'edge_attr=torch.randn(6, 3))',
    ),
    'wav2vec2': Model(
        'torchaudio', 'torchaudio/models/wav2vec2/model.py', 'Wav2Vec2Model',
        "wav2vec2_model('group_norm', [(8, 5, 2), (8, 3, 2)], False, 16, 0.1, 8, 4, 2, 2, 0.1, 24, 0.1, 0.1, False, "
        '0.1, 5)',
        '(torch.randn(2, 80), torch.tensor([80, 60]))',
    ),
    'ecapa_tdnn': Model(
        'speechbrain', 'speechbrain/lobes/models/ECAPA_TDNN.py', 'ECAPA_TDNN',
        'ECAPA_TDNN(10, lin_neurons=8, channels=[8, 8, 8, 8, 24], attention_channels=6, res2net_scale=2, '
        'se_channels=6, dropout=0.1)',
        '(torch.randn(2, 20, 10), torch.tensor([1.0, 0.6]))',
    ),
    'brits': Model(
        'pypots', 'pypots/nn/modules/brits/backbone.py', 'BackboneBRITS',
        'BackboneBRITS(6, 3, 8)',
        '({way: dict(X=torch.randn(2, 6, 3), missing_mask=torch.randint(0, 2, (2, 6, 3)).float(), '
        "deltas=torch.rand(2, 6, 3)) for way in ('forward', 'backward')},)",
    ),
    'nhits': Model(
        'pytorch-forecasting', 'pytorch_forecasting/models/nhits/sub_modules.py', 'NHiTS',
        "NHiTS(12, 4, [1], 2, 2, 1, 4, [1, 1], [2, 2], [[8, 8], [8, 8]], [2, 1], [2, 1], 'max', 'linear', 0.1, "
        "'ReLU', 'orthogonal', False, False, True)",
        '(torch.randn(2, 12, 1), torch.ones(2, 12), torch.randn(2, 12, 2), torch.randn(2, 4, 1), torch.randn(2, 2))',
    ),
    'xcit': Model(
        'timm', 'timm/models/xcit.py', 'Xcit',
        'Xcit(img_size=32, patch_size=8, num_classes=5, embed_dim=16, depth=2, num_heads=2, eta=0.5, '
        'tokens_norm=True, drop_path_rate=0.1)',
        'torch.randn(2, 3, 32, 32)',
    ),
    'swin_unetr': Model(
        'monai', 'monai/networks/nets/swin_unetr.py', 'SwinUNETR',
        'SwinUNETR(1, 2, depths=(2, 2, 2, 2), num_heads=(1, 2, 2, 4), window_size=4, feature_size=12, spatial_dims=2, '
        'dropout_path_rate=0.1)',
        'torch.randn(2, 1, 64, 64)',
    ),
    'swinir': Model(
        'spandrel', 'spandrel/architectures/SwinIR/__arch/SwinIR.py', 'SwinIR',
        "SwinIR(img_size=16, embed_dim=12, depths=[2], num_heads=[2], window_size=4, mlp_ratio=2.0, upscale=2, "
        "upsampler='pixelshuffledirect', ape=True)",
        'torch.rand(2, 3, 16, 16)',
    ),
}  # fmt: skip
