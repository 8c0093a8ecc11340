"""Makes triples of Chinese and mixed texts for text_match: query, positive, negative.

Usage: python make_texts.py ROWS SEED > texts.csv

Each topic has words of its own, of a lexicon of everyday words and of made-up names that no dictionary has (two or three
characters drawn at random). A query and its positive are of one topic, a negative is of another; each says two or three of
its topic's words among words of all topics and common ones, without spaces, as Chinese is written. A fifth of the topics
have English words, too.
"""
import random
import sys

WORDS = """学生 学校 学习 大学 医生 医院 医学 生活 生产 生日 产品 产业 工业 工作 工人 人民 人口 人类 民族 民主 国家 国际 国内 家庭 家具 家电
电脑 电话 电影 电视 电子 影响 影片 音乐 音响 乐队 队伍 运动 运输 动物 动力 物理 物价 价格 价值 格式 市场 市民 场地 地图 地铁 地球 球队 球迷
铁路 路线 路口 线路 口味 味道 道路 道德 天气 天空 空气 空间 气候 气温 温度 温泉 时间 时代 时候 间接 代表 代码 表格 表演 演员 演出 出口 出版
版本 本地 本质 质量 数量 数据 数学 数字 据说 说明 明天 明星 星期 星球 期间 期望 希望 望远镜 火车 火山 山水 水果 水平 果汁 平台 平衡 台风 风景
风险 景色 色彩 彩票 票价 经济 经验 经理 验证 证明 证券 理论 理解 论文 文化 文章 文件 文学 化学 章节 节目 节日 目标 标准 准备 设备 设计 计划 计算
算法 法律 法院 院子 律师 师傅 老师 老人 软件 硬件 网络 网站 站台 新闻 新鲜 闻名 名字 字典 典型 类型 模型 模式 方式 方法 方向 向导 导游 导演 旅游
旅行 行业 行李 业务 业余 商业 商店 商品 品牌 品质 饭店 饭菜 菜单 单位 单车 位置 置换 汽车 汽油 油价 飞机 飞行 机场 机器 机会 会议 会员 员工 议论""".split()
COMMON = "的 了 在 是 有 和 我们 他们 这个 那个 可以 需要 因为 所以 但是 非常 已经 一些 什么 怎么 请问 告诉 关于 以及 没有 知道".split()
ENGLISH = "battery screen python router guitar camera novel ticket coffee garden laptop window summer winter bridge market".split()


def topics_of(rng, count):
    characters = [chr(code) for code in range(0x4E00, 0x9000)]
    topics = []
    for topic in range(count):
        words = rng.sample(WORDS, 4)
        words += ["".join(rng.sample(characters, rng.randint(2, 3))) for _ in range(2)]
        if topic % 5 == 0:
            words += rng.sample(ENGLISH, 2)
        topics.append(words)
    return topics


def text_of(rng, topic):
    parts = rng.sample(topic, rng.randint(2, 3)) + rng.sample(COMMON, 3) + rng.sample(WORDS, 2)
    rng.shuffle(parts)
    return "".join(parts)


def main():
    rows, seed = int(sys.argv[1]), int(sys.argv[2])
    topics = topics_of(random.Random(1), 150)
    rng = random.Random(seed)
    print("query,positive,negative")
    for _ in range(rows):
        topic, other = rng.sample(topics, 2)
        print(",".join((text_of(rng, topic), text_of(rng, topic), text_of(rng, other))))


main()
