"""Words for generated catalogs: what a marketplace's departments sell, and how sellers write of it.

Pure vocabulary; `generator.py` combines it. Attribute and SKU keys are those of ShoppingBench's records where
it has one, values are lower case as there. Brands are invented.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of product. `leaf` is its category's last part; `nouns` are what titles call it."""

    leaf: str
    nouns: tuple[str, ...]
    adjectives: tuple[str, ...]
    price: tuple[int, int]
    """Lowest and highest usual price, PHP."""
    attributes: dict[str, tuple[str, ...]]
    sku: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Department:
    """Kinds that one shop may sell side by side."""

    name: str
    kinds: tuple[Kind, ...]


COLORS = ("black", "white", "red", "navy blue", "green", "pink", "beige", "grey", "brown", "yellow", "purple")
SIZES = ("xs", "s", "m", "l", "xl", "2xl", "3xl")
PATTERNS = ("plain", "floral", "striped", "checkered", "cartoon", "geometric", "abstract", "letter")
GENDERS = ("male", "female", "unisex")

BRANDS = (
    "Alonta",
    "Arvero",
    "Bayan",
    "Belvane",
    "Bintana",
    "Calisto",
    "Cordova",
    "Dalisay",
    "Delmari",
    "Dorvane",
    "Elysse",
    "Fenlow",
    "Galante",
    "Halden",
    "Havila",
    "Ilaya",
    "Isarog",
    "Jovian",
    "Kalinga",
    "Kestrel",
    "Kuyapa",
    "Lakan",
    "Lumika",
    "Malaya",
    "Maravel",
    "Mirando",
    "Monteva",
    "Narra",
    "Nivara",
    "Norvik",
    "Oravia",
    "Palawa",
    "Pinova",
    "Quillon",
    "Ravelo",
    "Rosanto",
    "Sagada",
    "Selvyn",
    "Sinag",
    "Solano",
    "Tamara",
    "Tanglaw",
    "Tavero",
    "Ulanova",
    "Valdesa",
    "Vermont",
    "Wavelle",
    "Xander",
    "Yakal",
    "Zaneta",
)

FILLERS = (
    "Original",
    "Hot Sale",
    "New Arrival",
    "2025 New",
    "Ready Stock",
    "Best Seller",
    "High Quality",
    "On Hand",
    "Premium",
    "Korean Style",
    "Direct Supplier",
    "Sale",
)

FASHION = Department(
    "Fashion",
    (
        Kind(
            "Casual Dresses",
            ("Dress", "Summer Dress", "Casual Dress"),
            ("Elegant", "Loose", "Flowy", "Vintage", "Beach", "Formal"),
            (180, 1600),
            {
                "fa_pattern": PATTERNS,
                "clothing_material": ("cotton", "polyester", "linen", "chiffon", "rayon"),
                "dress_length": ("mini", "midi", "maxi", "knee length"),
                "sleeves": ("sleeveless", "short sleeve", "long sleeve", "puff sleeve"),
                "fa_season": ("summer", "spring", "autumn", "winter"),
                "m_top_neckline": ("v neck", "o neck", "square neck", "off shoulder"),
            },
            {"color_family": COLORS, "size": SIZES},
        ),
        Kind(
            "T-Shirts",
            ("T-Shirt", "Tee Shirt", "Oversized Tee", "Cotton T-Shirt"),
            ("Graphic", "Oversized", "Streetwear", "Basic", "Vintage"),
            (90, 700),
            {
                "fa_pattern": PATTERNS,
                "clothing_material": ("cotton", "polyester", "cotton blend", "dri-fit", "bamboo"),
                "recommended_gender": GENDERS,
                "collar_type": ("crew neck", "v neck", "polo collar", "henley"),
                "top_fit_types": ("regular fit", "slim fit", "oversized fit", "loose fit"),
                "fa_general_styles": ("casual", "sporty", "korean", "minimalist", "hip hop"),
            },
            {"color_family": COLORS, "size": SIZES},
        ),
        Kind(
            "Running Shoes",
            ("Running Shoes", "Sneakers", "Sport Shoes", "Rubber Shoes"),
            ("Lightweight", "Breathable", "Cushioned", "Trail", "Walking"),
            (350, 4800),
            {
                "upper_material": ("mesh", "knit", "leather", "canvas", "synthetic"),
                "sole_material": ("rubber", "eva", "phylon", "tpu"),
                "recommended_gender": GENDERS,
                "closure_type": ("lace up", "slip on", "velcro", "zipper"),
                "activity_type": ("running", "walking", "training", "hiking"),
            },
            {"color_family": COLORS, "size": ("36", "37", "38", "39", "40", "41", "42", "43", "44")},
        ),
        Kind(
            "Backpacks",
            ("Backpack", "School Bag", "Laptop Backpack", "Travel Backpack"),
            ("Waterproof", "Large Capacity", "Anti-Theft", "Foldable", "Student"),
            (220, 2600),
            {
                "bag_material": ("nylon", "canvas", "polyester", "leather", "oxford cloth"),
                "waterproof": ("waterproof", "water resistant", "not waterproof"),
                "bag_size": ("10 inch", "13 inch", "15.6 inch", "17 inch"),
                "fa_pattern": PATTERNS,
                "occasion": ("school", "travel", "office", "hiking"),
                "recommended_gender": GENDERS,
            },
            {"color_family": COLORS},
        ),
    ),
)

GADGETS = Department(
    "Mobiles & Gadgets",
    (
        Kind(
            "Phone Cases",
            ("Phone Case", "Phone Casing", "Back Cover Case", "Shockproof Case"),
            ("Clear", "Slim", "Shockproof", "Cute", "Matte", "Rugged"),
            (35, 480),
            {
                "case_material": ("silicone", "tpu", "leather", "polycarbonate", "acrylic"),
                "case_function": ("anti-fall", "anti-scratch", "magnetic", "card holder", "kickstand"),
                "phonecase_theme": ("basic", "cartoon", "floral", "marble", "sports"),
                "type_case_cover": ("back cover", "flip cover", "bumper", "wallet case"),
            },
            {
                "color_family": COLORS,
                "compatibility_by_model": (
                    "iphone 13",
                    "iphone 14 pro",
                    "iphone 15",
                    "galaxy s23",
                    "galaxy a54",
                    "redmi note 12",
                    "oppo reno 8",
                    "vivo y35",
                ),
            },
        ),
        Kind(
            "Wireless Earphones",
            ("Wireless Earbuds", "Bluetooth Earphones", "TWS Earbuds", "Bluetooth Headset"),
            ("Noise Cancelling", "Deep Bass", "Gaming", "Mini", "HiFi"),
            (150, 3900),
            {
                "bluetooth_version": ("5.0", "5.1", "5.2", "5.3"),
                "earphone_fit": ("in-ear", "semi in-ear", "over-ear", "bone conduction"),
                "battery_life": ("4 hours", "6 hours", "8 hours", "12 hours", "24 hours"),
                "waterproof": ("ipx4", "ipx5", "ipx7", "not waterproof"),
                "case_function": ("led display", "fast charging", "wireless charging", "touch control"),
            },
            {"color_family": COLORS},
        ),
        Kind(
            "Power Banks",
            ("Power Bank", "Powerbank", "Portable Charger"),
            ("Mini", "Slim", "Fast Charging", "Digital Display", "Magnetic"),
            (250, 2400),
            {
                "battery_capacity": ("5000mah", "10000mah", "20000mah", "30000mah"),
                "plug_type": ("type-c", "micro usb", "lightning", "usb-a"),
                "output_power": ("10w", "18w", "22.5w", "33w", "65w"),
                "shell_material": ("abs", "aluminum", "polycarbonate"),
                "case_function": ("led display", "fast charging", "wireless charging", "flashlight"),
            },
            {"color_family": COLORS},
        ),
        Kind(
            "Computer Mice",
            ("Wireless Mouse", "Gaming Mouse", "Optical Mouse", "Ergonomic Mouse"),
            ("Silent", "RGB", "Rechargeable", "Slim", "Vertical"),
            (120, 2200),
            {
                "connection_type": ("2.4ghz", "bluetooth", "wired usb", "dual mode"),
                "sensor_resolution": ("1200 dpi", "1600 dpi", "3200 dpi", "7200 dpi"),
                "power_source": ("aa battery", "rechargeable battery", "usb powered"),
                "hand_orientation": ("right hand", "left hand", "both hands"),
                "special_feature": ("silent click", "rgb light", "programmable buttons", "foldable"),
            },
            {"color_family": COLORS},
        ),
    ),
)

HOME = Department(
    "Home & Living",
    (
        Kind(
            "Bed Sheets",
            ("Bed Sheet Set", "Bedsheet", "Fitted Sheet Set", "Beddings Set"),
            ("Soft", "Hotel", "Cooling", "3in1", "4in1"),
            (180, 1900),
            {
                "material": ("cotton", "cotton blend", "microfiber", "bamboo", "satin"),
                "pattern": PATTERNS,
                "fabric_feature": ("breathable", "wrinkle free", "hypoallergenic", "cooling"),
                "age_group": ("adults", "kids", "baby"),
                "piece_count": ("1 piece", "3 pieces", "4 pieces", "5 pieces"),
            },
            {"color_family": COLORS, "bedding_size_2": ("single", "twin", "double", "queen", "king")},
        ),
        Kind(
            "Water Bottles",
            ("Water Bottle", "Tumbler", "Insulated Flask", "Drinking Bottle"),
            ("Leakproof", "Vacuum", "Sports", "Cute", "Large"),
            (90, 1500),
            {
                "material": ("stainless steel", "plastic", "glass", "tritan", "aluminum"),
                "lid_type": ("straw lid", "flip lid", "screw cap", "sip lid"),
                "insulation": ("double wall", "single wall", "vacuum insulated"),
                "dietary_needs": ("bpa free", "food grade", "lead free"),
                "recommended_age": ("kids", "adults", "all ages"),
            },
            {"color_family": COLORS, "volume": ("350 ml", "500 ml", "750 ml", "1000 ml", "1500 ml")},
        ),
        Kind(
            "Pendant Lights",
            ("Pendant Light", "Drop Light", "Hanging Lamp", "Chandelier Light"),
            ("Modern", "Nordic", "Industrial", "Rattan", "Minimalist"),
            (280, 5200),
            {
                "light_bulb_type": ("led", "incandescent", "halogen", "fluorescent"),
                "light_bulb_colour": ("warm white", "cool white", "daylight", "rgb"),
                "lamp_material": ("metal", "glass", "wood", "rattan", "acrylic"),
                "input_voltage": ("110v", "220v", "12v", "24v"),
                "room_type": ("dining room", "bedroom", "living room", "kitchen"),
            },
            {"color_family": COLORS, "size": ("20cm", "30cm", "40cm", "50cm", "60cm")},
        ),
        Kind(
            "Storage Boxes",
            ("Storage Box", "Organizer Box", "Foldable Storage Bin", "Container Box"),
            ("Stackable", "Foldable", "Heavy Duty", "Transparent", "With Wheels"),
            (95, 1300),
            {
                "material": ("plastic", "fabric", "acrylic", "bamboo", "metal"),
                "storage_feature": ("stackable", "foldable", "with lid", "with wheels", "with handle"),
                "room_type": ("bedroom", "kitchen", "office", "bathroom"),
                "shape": ("rectangular", "square", "round"),
                "piece_count": ("1 piece", "2 pieces", "3 pieces", "6 pieces"),
            },
            {"color_family": COLORS, "size": ("small", "medium", "large", "extra large")},
        ),
    ),
)

BEAUTY = Department(
    "Health & Beauty",
    (
        Kind(
            "Face Serums",
            ("Face Serum", "Facial Serum", "Essence Serum", "Ampoule"),
            ("Brightening", "Hydrating", "Anti-Aging", "Glow", "Pore"),
            (120, 1900),
            {
                "skin_type": ("all types", "oily", "dry", "sensitive", "combination"),
                "skin_benefit": ("brightening", "moisturizing", "anti-acne", "anti-aging", "soothing"),
                "ingredient_preference": ("paraben-free", "alcohol-free", "vegan", "fragrance-free"),
                "active_ingredient": (
                    "niacinamide",
                    "vitamin c",
                    "hyaluronic acid",
                    "retinol",
                    "snail mucin",
                ),
                "packaging_type": ("dropper bottle", "pump bottle", "tube", "ampoule set"),
            },
            {"volume": ("15 ml", "30 ml", "50 ml", "100 ml")},
        ),
        Kind(
            "Lipsticks",
            ("Lipstick", "Matte Lipstick", "Liquid Lipstick", "Lip Tint"),
            ("Long Lasting", "Velvet", "Waterproof", "Moisturizing", "Glossy"),
            (60, 950),
            {
                "finish": ("matte", "glossy", "satin", "velvet", "sheer"),
                "formulation": ("liquid", "bullet", "cream", "crayon"),
                "ingredient_preference": ("paraben-free", "alcohol-free", "vegan", "fragrance-free"),
                "waterproof_function": ("waterproof", "smudge proof", "not waterproof"),
                "units_hb": ("single item", "set of 3", "set of 6"),
            },
            {"color_family": ("nude", "rose", "coral", "berry", "brick red", "mauve", "cherry", "peach")},
        ),
        Kind(
            "Shampoos",
            ("Shampoo", "Hair Shampoo", "Anti Dandruff Shampoo", "Keratin Shampoo"),
            ("Nourishing", "Herbal", "Volumizing", "Repairing", "Gentle"),
            (85, 1200),
            {
                "concerns_hair_care": ("dandruff", "hair fall", "dryness", "frizz", "damage"),
                "hair_type": ("all types", "straight", "curly", "colored", "oily"),
                "ingredient_preference": ("paraben-free", "sulfate-free", "silicone-free", "vegan"),
                "scents": ("lavender", "coconut", "mint", "rose", "unscented"),
                "packaging_type": ("bottle", "sachet", "pump bottle", "bar"),
            },
            {"volume": ("100 ml", "250 ml", "500 ml", "1000 ml")},
        ),
    ),
)

MOTORS = Department(
    "Motors & Tools",
    (
        Kind(
            "Motorcycle Helmets",
            ("Motorcycle Helmet", "Full Face Helmet", "Half Face Helmet", "Modular Helmet"),
            ("Dual Visor", "Retro", "Racing", "Lightweight", "Classic"),
            (650, 6800),
            {
                "helmet_type": ("full face", "half face", "modular", "off road"),
                "shell_material": ("abs", "fiberglass", "carbon fiber", "polycarbonate"),
                "visor_type": ("clear visor", "smoke visor", "dual visor", "iridium visor"),
                "certification": ("icc", "dot", "ece"),
                "special_feature": ("bluetooth ready", "removable liner", "quick release", "anti-fog"),
            },
            {"color_family": COLORS, "size": ("s", "m", "l", "xl", "2xl")},
        ),
        Kind(
            "Cordless Drills",
            ("Cordless Drill", "Electric Drill", "Impact Drill", "Hammer Drill"),
            ("Brushless", "Heavy Duty", "Rechargeable", "Mini", "Professional"),
            (700, 5900),
            {
                "input_voltage": ("12v", "18v", "21v", "48v"),
                "power_tool_feature": ("led light", "variable speed", "hammer mode", "keyless chuck"),
                "motor_type": ("brushless", "brushed"),
                "battery_count": ("1 battery", "2 batteries", "no battery"),
                "chuck_size": ("8 mm", "10 mm", "13 mm"),
            },
            {
                "color_family": ("black", "red", "green", "yellow", "navy blue"),
                "plug_type": ("us", "eu", "uk"),
            },
        ),
        Kind(
            "Car Seat Covers",
            ("Car Seat Cover", "Seat Cover Set", "Car Seat Cushion", "Leather Seat Cover"),
            ("Universal", "Luxury", "Breathable", "Full Set", "Waterproof"),
            (380, 4200),
            {
                "material": ("pu leather", "polyester", "mesh", "linen", "neoprene"),
                "make": ("toyota", "honda", "mitsubishi", "ford", "universal"),
                "piece_count": ("1 piece", "2 pieces", "5 pieces", "9 pieces"),
                "waterproof": ("waterproof", "water resistant", "not waterproof"),
                "pattern": ("plain", "diamond", "striped", "carbon"),
            },
            {"color_family": COLORS},
        ),
    ),
)

KIDS = Department(
    "Toys, Kids & Sports",
    (
        Kind(
            "Building Blocks",
            ("Building Blocks", "Blocks Toy", "Brick Set", "Construction Blocks"),
            ("Educational", "Mini", "City", "3D Model", "Creative"),
            (75, 2300),
            {
                "recommended_age": (
                    "3 years and above",
                    "6 years and above",
                    "8 years and above",
                    "12 years and above",
                ),
                "toy_theme": ("castle", "space", "animals", "vehicles", "city"),
                "material": ("plastic", "wood", "foam", "magnetic"),
                "recommended_gender": GENDERS,
                "piece_count": ("50 pieces", "120 pieces", "300 pieces", "800 pieces"),
            },
            {"color_family": ("multicolor", "red", "pink", "green", "wood", "pastel")},
        ),
        Kind(
            "Yoga Mats",
            ("Yoga Mat", "Exercise Mat", "Pilates Mat", "Fitness Mat"),
            ("Non-Slip", "Thick", "Foldable", "Eco", "Travel"),
            (160, 1700),
            {
                "sports_material": ("nbr", "tpe", "pvc", "natural rubber", "cork"),
                "mat_thickness": ("4 mm", "6 mm", "8 mm", "10 mm", "15 mm"),
                "special_feature": ("with strap", "with bag", "alignment lines", "double sided"),
                "activity_type": ("yoga", "pilates", "gym", "camping"),
                "pattern": ("plain", "mandala", "marble", "tie dye"),
            },
            {"color_family": COLORS},
        ),
        Kind(
            "Baby Pajamas",
            ("Baby Pajama", "Kids Pajama Set", "Terno Pajama", "Sleepwear Set"),
            ("Soft", "Cute", "Long Sleeve", "Breathable", "Newborn"),
            (95, 750),
            {
                "clothing_material": ("cotton", "spandex", "bamboo", "fleece", "polyester"),
                "fa_pattern": PATTERNS,
                "recommended_gender": ("boy", "girl", "unisex"),
                "sleeves": ("sleeveless", "short sleeve", "long sleeve"),
                "pack_type": ("single piece", "set of 2", "set of 3", "set of 5"),
            },
            {"color_family": COLORS, "size": ("0-6m", "6-12m", "1-2y", "3-5y", "6-8y")},
        ),
    ),
)

DEPARTMENTS = (FASHION, GADGETS, HOME, BEAUTY, MOTORS, KIDS)
